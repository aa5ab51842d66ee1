// Places for virtual registers: liveness, then a linear scan. A lane's registers are its own, so what holds
// for one thread's paths through the code holds for diverged lanes too.
#include <algorithm>

#include "exec/decode.hpp"

namespace vgpu::ptx {

namespace {
class Bits {
 public:
  explicit Bits(std::size_t n) : words_((n + 63) / 64) {}
  bool get(u32 i) const { return words_[i / 64] >> (i % 64) & 1; }
  void set(u32 i) { words_[i / 64] |= 1ull << (i % 64); }
  void clear(u32 i) { words_[i / 64] &= ~(1ull << (i % 64)); }
  // this |= gen | (out & ~kill); true when it grew
  bool flow(const Bits& gen, const Bits& out, const Bits& kill) {
    bool grew = false;
    for (std::size_t w = 0; w < words_.size(); ++w) {
      u64 v = words_[w] | gen.words_[w] | (out.words_[w] & ~kill.words_[w]);
      grew |= v != words_[w];
      words_[w] = v;
    }
    return grew;
  }
  void join(const Bits& o) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= o.words_[w];
  }
  template <class F>
  void each(F f) const {
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (u64 v = words_[w]; v; v &= v - 1) f(static_cast<u32>(w * 64 + std::countr_zero(v)));
  }

 private:
  std::vector<u64> words_;
};

template <class F>
void each_slot(u8 set, F f) {
  for (u32 s = set; s; s &= s - 1) f(static_cast<u32>(std::countr_zero(s)));
}
}  // namespace

void allocate_registers(Program& p, const std::vector<Type>& types) {
  const u32 registers = static_cast<u32>(types.size());
  BasicBlocks b = basic_blocks(p);
  const u32 count = static_cast<u32>(b.after.size());
  std::vector<Bits> gen(count, Bits(registers)), kill = gen, in = gen, out = gen;
  for (u32 k = 0; k < count; ++k) {
    for (u32 i = b.begin[k]; i < b.begin[k + 1]; ++i) {
      const Inst& x = p.code[i];
      each_slot(x.uses, [&](u32 s) {
        if (!kill[k].get(x.op[s])) gen[k].set(x.op[s]);
      });
      // A guarded result keeps the old value in some lanes.
      each_slot(x.defs, [&](u32 s) {
        if (x.guard == kNone)
          kill[k].set(x.op[s]);
        else if (!kill[k].get(x.op[s]))
          gen[k].set(x.op[s]);
      });
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (u32 k = count; k-- > 0;) {
      for (u32 t : b.after[k]) out[k].join(in[t]);
      changed |= in[k].flow(gen[k], out[k], kill[k]);
    }
  }
  // Intervals over positions 2i (reads) and 2i+1 (writes).
  struct Interval {
    u32 begin = kNone, end = 0, id = 0;
  };
  std::vector<Interval> intervals(registers);
  auto touch = [&](u32 r, u32 at) {
    Interval& v = intervals[r];
    v.begin = std::min(v.begin, at);
    v.end = std::max(v.end, at);
  };
  for (u32 k = 0; k < count; ++k) {
    in[k].each([&](u32 r) { touch(r, 2 * b.begin[k]); });
    out[k].each([&](u32 r) { touch(r, 2 * b.begin[k + 1]); });
    for (u32 i = b.begin[k]; i < b.begin[k + 1]; ++i) {
      const Inst& x = p.code[i];
      each_slot(x.uses, [&](u32 s) { touch(x.op[s], 2 * i + (x.no_share ? 1 : 0)); });
      each_slot(x.defs, [&](u32 s) { touch(x.op[s], 2 * i + 1); });
    }
  }
  std::vector<Interval> order;
  for (u32 r = 0; r < registers; ++r) {
    intervals[r].id = r;
    if (intervals[r].begin != kNone && types[r] != Type::Pred) order.push_back(intervals[r]);
  }
  std::sort(order.begin(), order.end(), [](const Interval& x, const Interval& y) {
    return x.begin != y.begin ? x.begin < y.begin : x.id < y.id;
  });
  std::vector<u32> place(registers, kNone);  // index in its width's pool
  std::vector<u32> free_list[4];
  u32 used[4] = {};
  std::vector<Interval> active;  // a heap, the earliest end first
  auto later = [](const Interval& x, const Interval& y) { return x.end > y.end; };
  for (const Interval& v : order) {
    while (!active.empty() && active.front().end < v.begin) {
      u32 r = active.front().id;
      free_list[static_cast<int>(width_of(types[r]))].push_back(place[r]);
      std::pop_heap(active.begin(), active.end(), later);
      active.pop_back();
    }
    int w = static_cast<int>(width_of(types[v.id]));
    if (free_list[w].empty()) {
      place[v.id] = used[w]++;
    } else {
      place[v.id] = free_list[w].back();
      free_list[w].pop_back();
    }
    active.push_back(v);
    std::push_heap(active.begin(), active.end(), later);
  }
  const u32 bytes32 = used[1] * 128, bytes64 = used[2] * 256;
  auto offset = [&](u32 r) {
    switch (width_of(types[r])) {
      case Width::W32: return place[r] * 128;
      case Width::W64: return bytes32 + place[r] * 256;
      default: return bytes32 + bytes64 + place[r] * 512;
    }
  };
  p.register_bytes = bytes32 + bytes64 + used[3] * 512;
  if (count)
    in[0].each([&](u32 r) {
      if (types[r] == Type::Pred) return;
      p.poison.push_back(offset(r));
      p.poison.push_back(kLanes * lane_bytes(width_of(types[r])));
    });
  for (Inst& x : p.code)
    each_slot(static_cast<u8>(x.uses | x.defs), [&](u32 s) { x.op[s] = offset(x.op[s]); });
}

}  // namespace vgpu::ptx
