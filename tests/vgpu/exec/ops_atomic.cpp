// atom and red. A warp's lanes update one after another.
#include "exec/decode.hpp"
#include "exec/lanes.hpp"

namespace vgpu::ptx {

namespace {

void count(Warp& w, const Inst& in, const u64* address, u32 mask) {
  if (!w.grid->counts || (in.space != Space::Global && in.space != Space::Generic)) return;
  each_lane(mask, [&](int l) { w.grid->counts->atomics += address[l] >> 56 == 0; });
}

// op: 0 result (kNone for red), 1 operand, 2 second operand (cas), 4 address.
template <class T, bool kReturns, class F>
void update(Warp& w, const Inst& in, u32 mask) {
  alignas(64) u64 address[kLanes];
  w.addresses(in, in.op[4], address);
  const Lane<T>* b = w.in<Lane<T>>(in.op[1]);
  const Lane<T>* c = in.op[2] != kNone ? w.in<Lane<T>>(in.op[2]) : b;
  u8* host[kLanes];
  count(w, in, address, mask);
  each_lane(mask, [&](int l) { host[l] = w.host(in, l, in.space, address[l], sizeof(T), true); });
  bool changed = false;
  Lane<T>* d = kReturns ? w.reg<Lane<T>>(in.op[0]) : nullptr;
  for (u32 k = 0; k < kLanes; ++k) {
    u32 l = (k + w.grid->lane_rotation) & 31;
    if (!(mask >> l & 1)) continue;
    T old;
    std::memcpy(&old, host[l], sizeof(T));
    T fresh = F{}(old, LaneOf<T>::get(b[l]), LaneOf<T>::get(c[l]));
    if (std::memcmp(&old, &fresh, sizeof(T)) != 0) {
      changed = true;
      std::memcpy(host[l], &fresh, sizeof(T));
    }
    if constexpr (kReturns) d[l] = LaneOf<T>::put(old);
  }
  if (in.flags & kStrong)
    w.block->epoch += w.grid->race_check;  // a release or acquire: threads may meet here
  if (changed)
    ++w.grid->progress;
  else
    ++w.spins;  // a failing cas, an exchange of equals: maybe a poll
}
template <class T, class F>
void set_handler(Decoder& d, bool returns, F) {
  d.inst.fn = returns ? update<T, true, F> : update<T, false, F>;
}

half add(half a, half b) { return to_half(to_float(a) + to_float(b)); }
bf16 add(bf16 a, bf16 b) { return to_bf16(to_float(a) + to_float(b)); }
template <class H>
u32 add_pair(u32 a, u32 b) {
  u32 lo = add(H{static_cast<u16>(a)}, H{static_cast<u16>(b)}).bits;
  u32 hi = add(H{static_cast<u16>(a >> 16)}, H{static_cast<u16>(b >> 16)}).bits;
  return lo | hi << 16;
}
template <class H>
H extreme(H a, H b, bool min) {
  float x = to_float(a), y = to_float(b);
  if (x != x) return b;
  if (y != y) return a;
  return (min ? x < y : x > y) ? a : b;
}
template <class H>
u32 extreme_pair(u32 a, u32 b, bool min) {
  u32 lo = extreme(H{static_cast<u16>(a)}, H{static_cast<u16>(b)}, min).bits;
  u32 hi = extreme(H{static_cast<u16>(a >> 16)}, H{static_cast<u16>(b >> 16)}, min).bits;
  return lo | hi << 16;
}

// b128 compare-and-swap and exchange.
void update128(Warp& w, const Inst& in, u32 mask) {
  alignas(64) u64 address[kLanes];
  w.addresses(in, in.op[4], address);
  const u64 *b = w.in<u64>(in.op[1]), *c = in.op[2] != kNone ? w.in<u64>(in.op[2]) : nullptr;
  u64* d = in.op[0] != kNone ? w.reg<u64>(in.op[0]) : nullptr;
  count(w, in, address, mask);
  each_lane(mask, [&](int l) {
    u8* p = w.host(in, l, in.space, address[l], 16, true);
    u64 old[2], b2[2] = {b[l], b[kLanes + l]};
    std::memcpy(old, p, 16);
    if (!c) {
      std::memcpy(p, b2, 16);
      ++w.grid->progress;
    } else if (old[0] == b2[0] && old[1] == b2[1]) {
      u64 c2[2] = {c[l], c[kLanes + l]};
      std::memcpy(p, c2, 16);
      ++w.grid->progress;
    } else {
      ++w.spins;
    }
    if (d) d[l] = old[0], d[kLanes + l] = old[1];
  });
}

void atomic(Decoder& d) {
  bool returns = d.opcode() == "atom";
  Type t = d.type();
  Space space = Space::Generic;
  for (std::string_view m : d.ast->modifiers) {
    if (m == "global") space = Space::Global;
    if (m == "shared" || m == "shared::cta" || m == "shared::cluster") space = Space::Shared;
  }
  if (d.has("async")) d.unsupported();
  unsigned v = d.has("v2") ? 2 : d.has("v4") ? 4 : d.has("v8") ? 8 : 1;
  unsigned first = returns ? 1 : 0;
  const Operand& where = d.operand(first);
  d.address(4, where, space);
  d.inst.no_share = true;
  if (d.has("release") || d.has("acquire") || d.has("acq_rel")) d.inst.flags |= kStrong;
  d.inst.ordering = d.ordering(true);
  bool cas = d.has("cas");

  auto handler = [&] {
    auto integers = [&]<class T>(T) {
      if (d.has("add"))
        set_handler<T>(d, returns, [](T a, T b, T) {
          return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                                static_cast<std::make_unsigned_t<T>>(b));
        });
      else if (d.has("min"))
        set_handler<T>(d, returns, [](T a, T b, T) { return a < b ? a : b; });
      else if (d.has("max"))
        set_handler<T>(d, returns, [](T a, T b, T) { return a > b ? a : b; });
      else if (d.has("and"))
        set_handler<T>(d, returns, [](T a, T b, T) { return static_cast<T>(a & b); });
      else if (d.has("or"))
        set_handler<T>(d, returns, [](T a, T b, T) { return static_cast<T>(a | b); });
      else if (d.has("xor"))
        set_handler<T>(d, returns, [](T a, T b, T) { return static_cast<T>(a ^ b); });
      else if (d.has("exch"))
        set_handler<T>(d, returns, [](T, T b, T) { return b; });
      else if (cas)
        set_handler<T>(d, returns, [](T a, T b, T c) { return a == b ? c : a; });
      else if (d.has("inc"))
        set_handler<T>(d, returns, [](T a, T b, T) { return static_cast<T>(a >= b ? 0 : a + 1); });
      else if (d.has("dec"))
        set_handler<T>(d, returns, [](T a, T b, T) { return static_cast<T>(a == 0 || a > b ? b : a - 1); });
      else
        d.unsupported("operation");
    };
    bool add = d.has("add"), min = d.has("min"), max = d.has("max");
    switch (t) {
      case Type::B16:
      case Type::U16: return integers(u16{});
      case Type::B32:
      case Type::U32: return integers(u32{});
      case Type::S32: return integers(s32{});
      case Type::B64:
      case Type::U64: return integers(u64{});
      case Type::S64: return integers(s64{});
      case Type::F32:
        if (!add) d.unsupported("operation");
        return set_handler<float>(d, returns, [](float a, float b, float) { return canonical(a + b); });
      case Type::F64:
        if (!add) d.unsupported("operation");
        return set_handler<double>(d, returns, [](double a, double b, double) { return a + b; });
      case Type::F16:
        if (add) return set_handler<half>(d, returns, [](half a, half b, half) { return ptx::add(a, b); });
        if (min)
          return set_handler<half>(d, returns, [](half a, half b, half) { return extreme(a, b, true); });
        if (max)
          return set_handler<half>(d, returns, [](half a, half b, half) { return extreme(a, b, false); });
        d.unsupported("operation");
      case Type::BF16:
        if (add) return set_handler<bf16>(d, returns, [](bf16 a, bf16 b, bf16) { return ptx::add(a, b); });
        if (min)
          return set_handler<bf16>(d, returns, [](bf16 a, bf16 b, bf16) { return extreme(a, b, true); });
        if (max)
          return set_handler<bf16>(d, returns, [](bf16 a, bf16 b, bf16) { return extreme(a, b, false); });
        d.unsupported("operation");
      case Type::F16x2:
        if (add) return set_handler<u32>(d, returns, [](u32 a, u32 b, u32) { return add_pair<half>(a, b); });
        if (min)
          return set_handler<u32>(d, returns,
                                  [](u32 a, u32 b, u32) { return extreme_pair<half>(a, b, true); });
        if (max)
          return set_handler<u32>(d, returns,
                                  [](u32 a, u32 b, u32) { return extreme_pair<half>(a, b, false); });
        d.unsupported("operation");
      case Type::BF16x2:
        if (add) return set_handler<u32>(d, returns, [](u32 a, u32 b, u32) { return add_pair<bf16>(a, b); });
        if (min)
          return set_handler<u32>(d, returns,
                                  [](u32 a, u32 b, u32) { return extreme_pair<bf16>(a, b, true); });
        if (max)
          return set_handler<u32>(d, returns,
                                  [](u32 a, u32 b, u32) { return extreme_pair<bf16>(a, b, false); });
        d.unsupported("operation");
      default: d.unsupported("type");
    }
  };

  if (v == 1) {
    if (returns) d.def(0, d.operand(0), t);
    d.use(1, d.operand(first + 1), t);
    if (cas) d.use(2, d.operand(first + 2), t);
    if (t == Type::B128) {
      d.inst.fn = update128;
      return;
    }
    handler();
    return;
  }
  // A vector form is one update per element: all but the last are emitted ahead, under the same guard.
  if (d.ast->predicated) d.unsupported("a guarded vector atomic");
  const Operand& results = d.operand(0);
  const Operand& values = d.operand(first + 1);
  if (values.kind != Operand::Vector || values.items.size() != v) d.unsupported("vector operand");
  const Inst base = d.inst;
  std::vector<Inst> parts;
  for (unsigned i = 0; i < v; ++i) {
    d.inst = base;
    d.inst.imm += static_cast<s64>(i * size_of(t));
    if (returns) d.def(0, results.items[i], t);
    d.use(1, values.items[i], t);
    handler();
    if (i + 1 < v) parts.push_back(d.inst);
  }
  for (Inst& i : parts) d.emit_before() = i;
}

}  // namespace

void register_atomic(Rules& r) { r["atom"] = r["red"] = atomic; }

}  // namespace vgpu::ptx
