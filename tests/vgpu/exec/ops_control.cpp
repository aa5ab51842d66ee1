// Moves, special registers, control flow, barriers and what the lanes of a warp exchange.
#include <algorithm>

#include "exec/decode.hpp"
#include "exec/lanes.hpp"

namespace vgpu::ptx {

namespace {

// ---- special registers ----
enum class Sreg : u8 {
  LaneId,
  WarpId,
  WarpCount,
  SmId,
  SmCount,
  GridId,
  MaskEq,
  MaskLe,
  MaskLt,
  MaskGe,
  MaskGt,
  Clock,
  ClockHigh,
  Clock64,
  Timer,
  TimerLow,
  TimerHigh,
  DynamicShared,
  TotalShared,
  Env1,
  Env2,
  Zero,
  One,
  ReservedBegin,
  ReservedEnd,
  ReservedSize,
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
};
const std::unordered_map<std::string_view, Sreg>& special_names() {
  static const auto& names = *new const std::unordered_map<std::string_view, Sreg>{
      // as in type_named
      {"%laneid", Sreg::LaneId},
      {"%warpid", Sreg::WarpId},
      {"%nwarpid", Sreg::WarpCount},
      {"%smid", Sreg::SmId},
      {"%nsmid", Sreg::SmCount},
      {"%gridid", Sreg::GridId},
      {"%lanemask_eq", Sreg::MaskEq},
      {"%lanemask_le", Sreg::MaskLe},
      {"%lanemask_lt", Sreg::MaskLt},
      {"%lanemask_ge", Sreg::MaskGe},
      {"%lanemask_gt", Sreg::MaskGt},
      {"%clock", Sreg::Clock},
      {"%clock_hi", Sreg::ClockHigh},
      {"%clock64", Sreg::Clock64},
      {"%globaltimer", Sreg::Timer},
      {"%globaltimer_lo", Sreg::TimerLow},
      {"%globaltimer_hi", Sreg::TimerHigh},
      {"%dynamic_smem_size", Sreg::DynamicShared},
      {"%total_smem_size", Sreg::TotalShared},
      {"%aggr_smem_size", Sreg::TotalShared},
      {"%envreg1", Sreg::Env1},
      {"%envreg2", Sreg::Env2},
      {"%tid.x", Sreg::TidX},
      {"%tid.y", Sreg::TidY},
      {"%tid.z", Sreg::TidZ},
      {"%ntid.x", Sreg::NtidX},
      {"%ntid.y", Sreg::NtidY},
      {"%ntid.z", Sreg::NtidZ},
      {"%ctaid.x", Sreg::CtaidX},
      {"%ctaid.y", Sreg::CtaidY},
      {"%ctaid.z", Sreg::CtaidZ},
      {"%nctaid.x", Sreg::NctaidX},
      {"%nctaid.y", Sreg::NctaidY},
      {"%nctaid.z", Sreg::NctaidZ},
      {"%reserved_smem_offset_begin", Sreg::ReservedBegin},
      {"%reserved_smem_offset_0", Sreg::ReservedBegin},
      {"%reserved_smem_offset_1", Sreg::ReservedBegin},
      {"%reserved_smem_offset_end", Sreg::ReservedEnd},
      {"%reserved_smem_offset_cap", Sreg::ReservedSize},
      // A cluster is one block.
      {"%clusterid.x", Sreg::CtaidX},
      {"%clusterid.y", Sreg::CtaidY},
      {"%clusterid.z", Sreg::CtaidZ},
      {"%nclusterid.x", Sreg::NctaidX},
      {"%nclusterid.y", Sreg::NctaidY},
      {"%nclusterid.z", Sreg::NctaidZ},
      {"%cluster_ctaid.x", Sreg::Zero},
      {"%cluster_ctaid.y", Sreg::Zero},
      {"%cluster_ctaid.z", Sreg::Zero},
      {"%cluster_nctaid.x", Sreg::One},
      {"%cluster_nctaid.y", Sreg::One},
      {"%cluster_nctaid.z", Sreg::One},
      {"%cluster_ctarank", Sreg::Zero},
      {"%cluster_nctarank", Sreg::One}};
  return names;
}

template <Sreg S>
u64 special_value(const Warp& w, u32 l) {
  const Launch& launch = *w.grid->launch;
  switch (S) {
    case Sreg::LaneId: return l;
    case Sreg::WarpId: return w.index;
    case Sreg::WarpCount: return 64;
    case Sreg::SmId: return w.block->linear % std::max(1u, launch.multiprocessors);
    case Sreg::SmCount: return launch.multiprocessors;
    case Sreg::GridId: return 1;
    case Sreg::MaskEq: return 1u << l;
    case Sreg::MaskLt: return (1u << l) - 1;
    case Sreg::MaskLe: return (2ull << l) - 1;
    case Sreg::MaskGe: return ~((1u << l) - 1);
    case Sreg::MaskGt: return static_cast<u32>(~((2ull << l) - 1));
    case Sreg::Clock:
    case Sreg::Clock64: return w.grid->clock;
    case Sreg::ClockHigh: return w.grid->clock >> 32;
    case Sreg::Timer:
    case Sreg::TimerLow: return w.grid->started + w.grid->clock;
    case Sreg::TimerHigh: return (w.grid->started + w.grid->clock) >> 32;
    case Sreg::DynamicShared: return launch.dynamic_shared_bytes;
    case Sreg::TotalShared: return w.grid->shared_bytes;
    case Sreg::Env1: return launch.cooperative ? kGridWindow >> 32 : 0;
    case Sreg::Env2: return launch.cooperative ? static_cast<u32>(kGridWindow) : 0;
    case Sreg::Zero: return 0;
    case Sreg::One: return 1;
    case Sreg::ReservedBegin: return w.grid->reserved_shared_at;
    case Sreg::ReservedEnd: return w.grid->reserved_shared_at + 1024;
    case Sreg::ReservedSize: return 1024;
    case Sreg::TidX: return w.tid[0][l];
    case Sreg::TidY: return w.tid[1][l];
    case Sreg::TidZ: return w.tid[2][l];
    case Sreg::NtidX: return launch.block.x;
    case Sreg::NtidY: return launch.block.y;
    case Sreg::NtidZ: return launch.block.z;
    case Sreg::CtaidX: return w.block->id.x;
    case Sreg::CtaidY: return w.block->id.y;
    case Sreg::CtaidZ: return w.block->id.z;
    case Sreg::NctaidX: return launch.grid.x;
    case Sreg::NctaidY: return launch.grid.y;
    case Sreg::NctaidZ: return launch.grid.z;
  }
  return 0;
}
template <Sreg S, class L>
void read_special(Warp& w, const Inst& in, u32 mask) {
  // Time passes with each look at it, so that waiting for a while ends.
  if (S == Sreg::Clock || S == Sreg::Clock64 || S == Sreg::Timer || S == Sreg::TimerLow)
    w.grid->clock += 10000;
  store_lanes<false>(w.reg<L>(in.op[0]), mask, [&](u32 l) { return static_cast<L>(special_value<S>(w, l)); });
}
template <class L, std::size_t... I>
Handler special_handler(Sreg s, std::index_sequence<I...>) {
  static constexpr Handler table[] = {read_special<static_cast<Sreg>(I), L>...};
  return table[static_cast<std::size_t>(s)];
}

// ---- mov ----
void unpack(Decoder& d, const Operand& parts, Type whole) {
  unsigned n = static_cast<unsigned>(parts.items.size()), bytes = size_of(whole) / n;
  Type part = bytes == 8 ? Type::B64 : bytes == 4 ? Type::B32 : bytes == 2 ? Type::B16 : Type::B8;
  if (n > 4) d.unsupported("vector");
  for (unsigned i = 0; i < n; ++i) d.def(i, parts.items[i], part);
  d.use(5, d.operand(1), whole);
  d.inst.no_share = true;
  d.inst.sub = static_cast<u8>(n);
  d.inst.imm = bytes;
  if (whole == Type::B128) {
    if (n != 2) d.unsupported("vector");
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* s = w.in<u64>(in.op[5]);
      store_lanes<true>(w.reg<u64>(in.op[0]), mask, [=](u32 l) { return s[l]; });
      store_lanes<true>(w.reg<u64>(in.op[1]), mask, [=](u32 l) { return s[kLanes + l]; });
    };
  } else if (size_of(whole) == 8) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* s = w.in<u64>(in.op[5]);
      const u32 bits = static_cast<u32>(in.imm) * 8;
      const u64 keep = (1ull << bits) - 1;
      for (u32 i = 0; i < in.sub; ++i)
        store_lanes<true>(w.reg<u32>(in.op[i]), mask,
                          [=](u32 l) { return static_cast<u32>(s[l] >> (i * bits) & keep); });
    };
  } else {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u32* s = w.in<u32>(in.op[5]);
      const u32 bits = static_cast<u32>(in.imm) * 8;
      const u32 keep = (1u << bits) - 1;
      for (u32 i = 0; i < in.sub; ++i)
        store_lanes<true>(w.reg<u32>(in.op[i]), mask, [=](u32 l) { return s[l] >> (i * bits) & keep; });
    };
  }
}
void pack(Decoder& d, const Operand& parts, Type whole) {
  unsigned n = static_cast<unsigned>(parts.items.size()), bytes = size_of(whole) / n;
  Type part = bytes == 8 ? Type::B64 : bytes == 4 ? Type::B32 : bytes == 2 ? Type::B16 : Type::B8;
  if (n > 4) d.unsupported("vector");
  d.def(5, d.operand(0), whole);
  for (unsigned i = 0; i < n; ++i) d.use(i, parts.items[i], part);
  d.inst.no_share = true;
  d.inst.sub = static_cast<u8>(n);
  d.inst.imm = bytes;
  if (whole == Type::B128) {
    if (n != 2) d.unsupported("vector");
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64 *a = w.in<u64>(in.op[0]), *b = w.in<u64>(in.op[1]);
      u64* r = w.reg<u64>(in.op[5]);
      store_lanes<true>(r, mask, [=](u32 l) { return a[l]; });
      store_lanes<true>(r + kLanes, mask, [=](u32 l) { return b[l]; });
    };
  } else if (whole == Type::B64 && n == 2) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u32 *a = w.in<u32>(in.op[0]), *b = w.in<u32>(in.op[1]);
      store_lanes<true>(w.reg<u64>(in.op[5]), mask, [=](u32 l) { return u64{b[l]} << 32 | a[l]; });
    };
  } else if (size_of(whole) == 8) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u32 bits = static_cast<u32>(in.imm) * 8;
      const u64 keep = (1ull << bits) - 1;
      store_lanes<false>(w.reg<u64>(in.op[5]), mask, [&](u32 l) {
        u64 r = 0;
        for (u32 i = 0; i < in.sub; ++i) r |= (w.in<u32>(in.op[i])[l] & keep) << (i * bits);
        return r;
      });
    };
  } else if (n == 2) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u32 *a = w.in<u32>(in.op[0]), *b = w.in<u32>(in.op[1]);
      const u32 bits = static_cast<u32>(in.imm) * 8, keep = (1u << bits) - 1;
      store_lanes<true>(w.reg<u32>(in.op[5]), mask,
                        [=](u32 l) { return (b[l] & keep) << bits | (a[l] & keep); });
    };
  } else {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      store_lanes<false>(w.reg<u32>(in.op[5]), mask, [&](u32 l) {
        u32 r = 0;
        for (u32 i = 0; i < in.sub; ++i) r |= (w.in<u32>(in.op[i])[l] & 0xff) << (8 * i);
        return r;
      });
    };
  }
}

void mov(Decoder& d) {
  Type t = d.type();
  const Operand &to = d.operand(0), &from = d.operand(1);
  if (t == Type::Pred) {
    d.def_predicate(0, to);
    d.use_predicate(1, from);
    d.inst.fn = [](Warp& w, const Inst& in, u32 m) { w.set_pred(in.op[0], m, w.pred(in.op[1])); };
    return;
  }
  if (to.kind == Operand::Vector) return unpack(d, to, t);
  if (from.kind == Operand::Vector) return pack(d, from, t);
  d.def(0, to, t);
  if (from.kind == Operand::Special) {
    d.inst.fn = special_register(d, from.name, size_of(t) == 8 ? Type::U64 : Type::U32);
    return;
  }
  d.use(1, from, t);
  if (t == Type::B128) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[1]);
      u64* r = w.reg<u64>(in.op[0]);
      store_lanes<true>(r, mask, [=](u32 l) { return a[l]; });
      store_lanes<true>(r + kLanes, mask, [=](u32 l) { return a[kLanes + l]; });
    };
    return;
  }
  d.inst.fn =
      size_of(t) == 8 ? unary<u64, u64>([](u64 a) { return a; }) : unary<u32, u32>([](u32 a) { return a; });
}

// ---- control flow ----
void bra(Decoder& d) {
  if (d.operand(0).kind != Operand::Label) d.unsupported("unknown label");
  d.inst.kind = Kind::Branch;
  d.inst.target = d.operand(0).index;
}
void brx(Decoder& d) {
  d.use(0, d.operand(0), Type::U32);
  auto it = d.function.branch_tables.find(d.operand(1).name);
  if (it == d.function.branch_tables.end()) d.unsupported("unknown table");
  d.extra().targets = it->second;
  d.inst.kind = Kind::BranchTable;
}
void ret(Decoder& d) { d.inst.kind = d.function.entry ? Kind::Exit : Kind::Return; }
void exit_(Decoder& d) { d.inst.kind = Kind::Exit; }
void trap(Decoder& d) {
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) { w.fault(in, std::countr_zero(mask), "trap"); };
}
void brkpt(Decoder& d) { d.inst.kind = Kind::Nop; }
void nanosleep(Decoder& d) {
  d.use(0, d.operand(0), Type::U32);
  d.inst.kind = Kind::Yield;
}

void call(Decoder& d) {
  unsigned i = 0;
  Extra& x = d.extra();
  auto list = [&](std::vector<u32>& offsets, std::vector<u32>& bytes) {
    for (const Operand& o : d.operand(i).items) {
      if (o.kind != Operand::Variable) d.unsupported("argument");
      const LocalVariable& v = d.function.variables[o.index];
      if (v.space == Space::Param && d.function.entry) d.unsupported("argument");
      offsets.push_back(v.offset);
      bytes.push_back(v.bytes);
    }
    ++i;
  };
  if (d.operand(i).kind == Operand::List) list(x.results, x.result_bytes);
  const Operand& target = d.operand(i++);
  if (target.kind == Operand::Symbol) {
    auto it = d.unit.function_named.find(target.name);
    if (it == d.unit.function_named.end()) d.unsupported("unknown function");
    x.callee = it->second;
  } else if (target.kind == Operand::Register) {
    d.use(0, target, Type::U64);
  } else {
    d.unsupported("callee");
  }
  if (i < d.operand_count() && d.operand(i).kind == Operand::List) list(x.arguments, x.argument_bytes);
  d.inst.kind = Kind::Call;
}

// ---- barriers ----
// op: 0 result, 1 barrier, 2 count, 3 predicate
void bar(Decoder& d) {
  bool cta_or_bar = d.opcode() == "bar" || d.opcode() == "barrier";
  if (d.has("warp")) {  // bar.warp.sync
    d.use(1, d.operand(0), Type::U32);
    d.inst.kind = Kind::WarpSync;
    d.inst.fn = [](Warp&, const Inst&, u32) {};
    d.inst.sub = 1;  // any lanes at such a barrier will do
    return;
  }
  if (!cta_or_bar || d.has("cluster")) {
    if (!d.has("cluster")) d.unsupported();
    // A cluster is one block: arrive and wait together are one barrier of the block.
    d.inst.kind = d.has("wait") ? Kind::Barrier : Kind::Nop;
    d.inst.op[1] = d.constant(15, Width::W32);
    if (d.has("wait")) d.extra();
    return;
  }
  Extra& x = d.extra();
  x.aligned = d.opcode() == "bar" || d.has("aligned");
  d.inst.kind = Kind::Barrier;
  unsigned i = 0;
  if (d.has("red")) {
    x.barrier = d.has("popc") ? Extra::Popc : d.has("and") ? Extra::And : Extra::Or;
    if (x.barrier == Extra::Popc)
      d.def(0, d.operand(i++), Type::U32);
    else
      d.def_predicate(0, d.operand(i++));
  } else if (d.has("arrive")) {
    x.barrier = Extra::Arrive;
  }
  d.use(1, d.operand(i++), Type::U32);
  unsigned left = d.operand_count() - i - (d.has("red") ? 1 : 0);
  if (left == 1) {
    x.has_count = true;
    d.use(2, d.operand(i++), Type::U32);
  }
  if (d.has("red")) d.use_predicate(3, d.operand(i));
}

// ---- lanes' exchanges; op[4] is the membermask ----
// op: 0 result, 1 a, 2 b, 3 c, 5 predicate result
template <int kMode>  // 0 up, 1 down, 2 bfly, 3 idx
void shuffle(Warp& w, const Inst& in, u32 mask) {
  const u32 *a = w.in<u32>(in.op[1]), *b = w.in<u32>(in.op[2]), *c = w.in<u32>(in.op[3]);
  alignas(64) u32 value[kLanes];
  u32 inside = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    u32 clamp = c[l] & 31, segment = c[l] >> 8 & 31, n = b[l] & 31;
    u32 least = l & segment, most = least | (clamp & ~segment);
    u32 j;
    bool p;
    if (kMode == 0)
      j = l - n, p = static_cast<s32>(j) >= static_cast<s32>(most);
    else if (kMode == 1)
      j = l + n, p = j <= most;
    else if (kMode == 2)
      j = l ^ n, p = j <= most;
    else
      j = least | (n & ~segment), p = j <= most;
    if (!p) j = l;
    if (p) inside |= kLaneBit[l];
    value[l] = mask >> (j & 31) & 1 ? a[j & 31] : 0xffffffffu;  // of a lane that takes no part: poison
  }
  store_lanes<true>(w.reg<u32>(in.op[0]), mask, [&](u32 l) { return value[l]; });
  w.set_pred(in.op[5], mask, inside);
}
void shfl(Decoder& d) {
  const Operand& r = d.operand(0);
  d.def(0, r, Type::B32);
  if (!r.items.empty()) d.def_predicate(5, r.items[0]);
  for (unsigned i = 1; i <= 3; ++i) d.use(i, d.operand(i), Type::B32);
  d.inst.no_share = true;
  if (d.has("sync")) {
    d.use(4, d.operand(4), Type::B32);
    d.inst.kind = Kind::WarpSync;
  }
  d.inst.fn = d.has("up") ? shuffle<0> : d.has("down") ? shuffle<1> : d.has("bfly") ? shuffle<2> : shuffle<3>;
}

u32 members(Warp& w, const Inst& in, u32 mask) {
  return in.op[4] == kNone ? kFull : w.in<u32>(in.op[4])[std::countr_zero(mask)];
}

// op: 0 result, 1 predicate
void vote(Decoder& d) {
  bool ballot = d.has("ballot");
  if (ballot)
    d.def(0, d.operand(0), Type::B32);
  else
    d.def_predicate(0, d.operand(0));
  d.use_predicate(1, d.operand(1));
  d.inst.sub = ballot ? 0 : d.has("all") ? 1 : d.has("any") ? 2 : 3;
  if (d.has("sync")) {
    d.use(4, d.operand(2), Type::B32);
    d.inst.kind = Kind::WarpSync;
  }
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    u32 p = w.pred(in.op[1]) & mask;
    auto result = [&](u32 m) -> u32 {  // m: the lanes that vote together
      switch (in.sub) {
        case 0: return p & m;
        case 1: return (p & m) == m ? kFull : 0;
        case 2: return p & m ? kFull : 0;
        default: return (p & m) == m || !(p & m) ? kFull : 0;
      }
    };
    // Usually one membermask; subgroups may pass their own.
    for (u32 rest = mask; rest;) {
      u32 m = members(w, in, rest) & mask;
      u32 group = m & rest ? m & rest : rest & (0u - rest);
      u32 r = result(m ? m : group);
      if (in.sub == 0)
        store_lanes<true>(w.reg<u32>(in.op[0]), group, [=](u32) { return r; });
      else
        w.set_pred(in.op[0], group, r);
      rest &= ~group;
    }
  };
}

void match(Decoder& d) {
  Type t = d.type();
  bool all = d.has("all");
  const Operand& r = d.operand(0);
  d.def(0, r, Type::B32);
  if (!r.items.empty()) d.def_predicate(5, r.items[0]);
  d.use(1, d.operand(1), t);
  d.use(4, d.operand(2), Type::B32);
  d.inst.kind = Kind::WarpSync;
  d.inst.no_share = true;
  d.inst.sub = all;
  auto make = [&]<class L>(L) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const L* a = w.in<L>(in.op[1]);
      const u32* member = w.in<u32>(in.op[4]);
      u32 result[kLanes], p = 0;
      each_lane(mask, [&](int l) {
        u32 same = 0, group = member[l] & mask;
        each_lane(group, [&](int k) { same |= a[k] == a[l] ? 1u << k : 0; });
        if (in.sub) {
          result[l] = same == group ? group : 0;
          p |= same == group ? 1u << l : 0;
        } else {
          result[l] = same;
        }
      });
      each_lane(mask, [&](int l) { w.reg<u32>(in.op[0])[l] = result[l]; });
      w.set_pred(in.op[5], mask, p);
    };
  };
  if (size_of(t) == 8)
    make(u64{});
  else
    make(u32{});
}

void redux(Decoder& d) {
  Type t = d.type();
  d.def(0, d.operand(0), Type::B32);
  d.use(1, d.operand(1), Type::B32);
  d.use(4, d.operand(2), Type::B32);
  d.inst.kind = Kind::WarpSync;
  d.inst.no_share = true;
  auto with = [&]<class F>(F) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u32 *a = w.in<u32>(in.op[1]), *member = w.in<u32>(in.op[4]);
      u32 result[kLanes];
      u32 last_group = 0, last = 0;
      each_lane(mask, [&](int l) {
        u32 group = member[l] & mask;
        if (group != last_group && group) {
          u32 rest = group & (group - 1);
          last = a[std::countr_zero(group)];
          each_lane(rest, [&](int k) { last = F{}(last, a[k]); });
          last_group = group;
        }
        result[l] = last;
      });
      each_lane(mask, [&](int l) { w.reg<u32>(in.op[0])[l] = result[l]; });
    };
  };
  bool sign = is_signed(t);
  if (t == Type::F32) d.unsupported("type");
  if (d.has("add"))
    with([](u32 a, u32 b) { return a + b; });
  else if (d.has("and"))
    with([](u32 a, u32 b) { return a & b; });
  else if (d.has("or"))
    with([](u32 a, u32 b) { return a | b; });
  else if (d.has("xor"))
    with([](u32 a, u32 b) { return a ^ b; });
  else if (d.has("min") && sign)
    with([](u32 a, u32 b) { return static_cast<s32>(a) < static_cast<s32>(b) ? a : b; });
  else if (d.has("max") && sign)
    with([](u32 a, u32 b) { return static_cast<s32>(a) > static_cast<s32>(b) ? a : b; });
  else if (d.has("min"))
    with([](u32 a, u32 b) { return a < b ? a : b; });
  else if (d.has("max"))
    with([](u32 a, u32 b) { return a > b ? a : b; });
  else
    d.unsupported("operation");
}

void activemask(Decoder& d) {
  d.def(0, d.operand(0), Type::B32);
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    store_lanes<true>(w.reg<u32>(in.op[0]), mask, [=](u32) { return mask; });
  };
}
void elect(Decoder& d) {
  const Operand& r = d.operand(0);
  d.def(0, r, Type::B32);
  if (!r.items.empty()) d.def_predicate(5, r.items[0]);
  d.use(4, d.operand(1), Type::B32);
  d.inst.kind = Kind::WarpSync;
  d.inst.no_share = true;
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    u32 group = members(w, in, mask) & mask;
    u32 leader = static_cast<u32>(std::countr_zero(group ? group : mask));
    store_lanes<true>(w.reg<u32>(in.op[0]), mask, [=](u32) { return leader; });
    w.set_pred(in.op[5], mask, 1u << leader);
  };
}

}  // namespace

Handler special_register(Decoder& d, std::string_view name, Type t) {
  const auto& names = special_names();
  auto it = names.find(name);
  Sreg s = Sreg::Zero;
  if (it != names.end()) {
    s = it->second;
  } else if (name.substr(0, 7) != "%envreg" && name.substr(0, 3) != "%pm" && name != "%is_explicit_cluster") {
    d.unsupported("special register " + std::string(name));
  }
  constexpr auto count = std::make_index_sequence<static_cast<std::size_t>(Sreg::NctaidZ) + 1>{};
  return t == Type::U64 ? special_handler<u64>(s, count) : special_handler<u32>(s, count);
}

void register_control(Rules& r) {
  r["mov"] = mov;
  r["bra"] = bra;
  r["brx"] = brx;
  r["call"] = call;
  r["ret"] = ret;
  r["exit"] = exit_;
  r["trap"] = trap;
  r["brkpt"] = brkpt;
  r["nanosleep"] = nanosleep;
  r["bar"] = r["barrier"] = bar;
  r["shfl"] = shfl;
  r["vote"] = vote;
  r["match"] = match;
  r["redux"] = redux;
  r["activemask"] = activemask;
  r["elect"] = elect;
}

}  // namespace vgpu::ptx
