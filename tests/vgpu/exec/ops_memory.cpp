// Loads, stores, address conversion, asynchronous copies and mbarriers.
#include "exec/decode.hpp"
#include "exec/lanes.hpp"

namespace vgpu::ptx {

namespace {

Space space_of(const Decoder& d) {
  for (std::string_view m : d.ast->modifiers) {
    if (m == "global") return Space::Global;
    if (m == "shared" || m == "shared::cta" || m == "shared::cluster") return Space::Shared;
    if (m == "local") return Space::Local;
    if (m == "const") return Space::Const;
    if (m == "param" || m == "param::entry" || m == "param::func") return Space::Param;
  }
  return Space::Generic;
}
bool strong(const Decoder& d) {
  return d.has("volatile") || d.has("relaxed") || d.has("acquire") || d.has("mmio");
}
unsigned vector_of(const Decoder& d) { return d.has("v2") ? 2 : d.has("v4") ? 4 : d.has("v8") ? 8 : 1; }

// A volatile, relaxed or acquire load: perhaps of a flag that another thread sets, so that the two meet here.
void polled(Warp& w) {
  ++w.spins;
  w.block->epoch += w.grid->race_check;
}

u8* lane_pointer(const Access& a, int l, u32 bytes) {
  return a.contiguous ? a.base + static_cast<s64>(l) * bytes : a.uniform ? a.base : a.lane[l];
}

// op[0..V-1] the results, op[4] the address.
template <class M, class R, unsigned V>
void load(Warp& w, const Inst& in, u32 mask) {
  alignas(64) u64 address[kLanes];
  w.addresses(in, in.op[4], address);
  Access a;
  w.access(in, address, mask, sizeof(M) * V, false, a);
  if (in.flags & kStrong) polled(w);
  if (a.contiguous && mask == kFull) {
    const M* p = reinterpret_cast<const M*>(a.base);
    for (unsigned v = 0; v < V; ++v) {
      R* d = w.reg<R>(in.op[v]);
      for (u32 l = 0; l < kLanes; ++l) d[l] = static_cast<R>(p[l * V + v]);
    }
    return;
  }
  R* d[V];
  for (unsigned v = 0; v < V; ++v) d[v] = w.reg<R>(in.op[v]);
  each_lane(mask, [&](int l) {
    M m[V];
    std::memcpy(m, lane_pointer(a, l, sizeof(M) * V), sizeof m);
    for (unsigned v = 0; v < V; ++v) d[v][l] = static_cast<R>(m[v]);
  });
}
template <class M, class R, unsigned V>
void store(Warp& w, const Inst& in, u32 mask) {
  alignas(64) u64 address[kLanes];
  w.addresses(in, in.op[4], address);
  Access a;
  w.access(in, address, mask, sizeof(M) * V, true, a);
  ++w.grid->progress;
  const R* s[V];
  for (unsigned v = 0; v < V; ++v) s[v] = w.in<R>(in.op[v]);
  if (a.contiguous && mask == kFull) {
    M* p = reinterpret_cast<M*>(a.base);
    for (unsigned v = 0; v < V; ++v)
      for (u32 l = 0; l < kLanes; ++l) p[l * V + v] = static_cast<M>(s[v][l]);
    return;
  }
  each_lane(mask, [&](int l) {
    M m[V];
    for (unsigned v = 0; v < V; ++v) m[v] = static_cast<M>(s[v][l]);
    std::memcpy(lane_pointer(a, l, sizeof(M) * V), m, sizeof m);
  });
}
// .b128 registers hold their low words first, then their high ones.
void load128(Warp& w, const Inst& in, u32 mask) {
  alignas(64) u64 address[kLanes];
  w.addresses(in, in.op[4], address);
  Access a;
  w.access(in, address, mask, 16, false, a);
  if (in.flags & kStrong) polled(w);
  u64* d = w.reg<u64>(in.op[0]);
  each_lane(mask, [&](int l) {
    u64 m[2];
    std::memcpy(m, lane_pointer(a, l, 16), 16);
    d[l] = m[0], d[kLanes + l] = m[1];
  });
}
void store128(Warp& w, const Inst& in, u32 mask) {
  alignas(64) u64 address[kLanes];
  w.addresses(in, in.op[4], address);
  Access a;
  w.access(in, address, mask, 16, true, a);
  ++w.grid->progress;
  const u64* s = w.in<u64>(in.op[0]);
  each_lane(mask, [&](int l) {
    u64 m[2] = {s[l], s[kLanes + l]};
    std::memcpy(lane_pointer(a, l, 16), m, 16);
  });
}

template <class M, class R>
Handler load_handler(unsigned v) {
  return v == 1 ? load<M, R, 1> : v == 2 ? load<M, R, 2> : load<M, R, 4>;
}
template <class M, class R>
Handler store_handler(unsigned v) {
  return v == 1 ? store<M, R, 1> : v == 2 ? store<M, R, 2> : store<M, R, 4>;
}

// The elements of a plain or vector operand.
std::vector<Operand> elements(Decoder& d, const Operand& o, unsigned v) {
  if (v == 1 && o.kind != Operand::Vector) return {o};
  if (o.kind != Operand::Vector || o.items.size() != v) d.unsupported("vector operand");
  return o.items;
}

void memory_operation(Decoder& d) {
  bool loads = d.opcode() != "st";
  Type t = d.type();
  unsigned v = vector_of(d);
  if (v > 4) d.unsupported("vector of 8");
  const Operand& data = d.operand(loads ? 0 : 1);
  const Operand& where = d.operand(loads ? 1 : 0);
  Space space = space_of(d);
  if (d.has("param") && !loads && d.function.entry) space = Space::Local;  // an argument of a call
  d.address(4, where, space);
  if (strong(d)) d.inst.flags |= kStrong;
  d.inst.ordering = d.ordering(false);
  std::vector<Operand> items = elements(d, data, v);
  // 8- and 16-bit data may be in wider registers: the access converts.
  bool wide = size_of(t) == 8;
  if (size_of(t) < 8)
    for (const Operand& o : items)
      if (o.kind == Operand::Register && width_of(d.types[o.index]) == Width::W64) wide = true;
  if (size_of(t) == 16) {
    if (v != 1) d.unsupported("vector of b128");
    loads ? d.def(0, items[0], t) : d.use(0, items[0], t);
    d.inst.fn = loads ? load128 : store128;
    d.inst.no_share = true;
    return;
  }
  Type in_register = wide ? Type::B64 : Type::B32;
  for (unsigned i = 0; i < v; ++i) loads ? d.def(i, items[i], in_register) : d.use(i, items[i], in_register);
  d.inst.no_share = true;
  if (loads) {
    switch (t) {
      case Type::S8: d.inst.fn = wide ? load_handler<s8, u64>(v) : load_handler<s8, u32>(v); break;
      case Type::S16: d.inst.fn = wide ? load_handler<s16, u64>(v) : load_handler<s16, u32>(v); break;
      case Type::S32: d.inst.fn = wide ? load_handler<s32, u64>(v) : load_handler<u32, u32>(v); break;
      default:
        switch (size_of(t)) {
          case 1: d.inst.fn = wide ? load_handler<u8, u64>(v) : load_handler<u8, u32>(v); break;
          case 2: d.inst.fn = wide ? load_handler<u16, u64>(v) : load_handler<u16, u32>(v); break;
          case 4: d.inst.fn = wide ? load_handler<u32, u64>(v) : load_handler<u32, u32>(v); break;
          case 8: d.inst.fn = load_handler<u64, u64>(v); break;
          default: d.unsupported("type");
        }
    }
    return;
  }
  switch (size_of(t)) {
    case 1: d.inst.fn = wide ? store_handler<u8, u64>(v) : store_handler<u8, u32>(v); break;
    case 2: d.inst.fn = wide ? store_handler<u16, u64>(v) : store_handler<u16, u32>(v); break;
    case 4: d.inst.fn = wide ? store_handler<u32, u64>(v) : store_handler<u32, u32>(v); break;
    case 8: d.inst.fn = store_handler<u64, u64>(v); break;
    default: d.unsupported("type");
  }
}

// ---- generic addresses ----
u64 window(Space s) {
  return s == Space::Shared  ? kSharedWindow
         : s == Space::Local ? kLocalWindow
         : s == Space::Param ? kParamWindow
                             : 0;
}
void cvta(Decoder& d) {
  Type t = d.type();
  Space s = space_of(d);
  // In a device function a parameter lies in local memory.
  if (s == Space::Param && !d.function.entry) s = Space::Local;
  bool to = d.has("to");
  d.operands(t, {t});
  u64 w = window(s);
  d.inst.imm = static_cast<s64>(w);
  if (size_of(t) == 4) {
    d.inst.fn = unary<u32, u32>([](u32 a) { return a; });
    return;
  }
  if (to)
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[1]);
      const u64 base = static_cast<u64>(in.imm);
      store_lanes<true>(w.reg<u64>(in.op[0]), mask, [=](u32 l) { return a[l] - base; });
    };
  else
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[1]);
      const u64 base = static_cast<u64>(in.imm);
      store_lanes<true>(w.reg<u64>(in.op[0]), mask, [=](u32 l) { return a[l] + base; });
    };
}
void isspacep(Decoder& d) {
  d.def_predicate(0, d.operand(0));
  d.use(1, d.operand(1), Type::U64);
  Space s = space_of(d);
  d.inst.imm = static_cast<s64>(window(s) >> 56);
  d.inst.sub = s == Space::Const ? 1 : 0;  // constants share the global window
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    const u64* a = w.in<u64>(in.op[1]);
    u32 r = 0;
    for (u32 l = 0; l < kLanes; ++l) r |= (a[l] >> 56) == static_cast<u64>(in.imm) ? kLaneBit[l] : 0;
    w.set_pred(in.op[0], mask, in.sub ? 0 : r);
  };
}
void mapa(Decoder& d) {  // a cluster is one block here
  Type t = d.type();
  d.operands(t, {t, Type::U32});
  d.inst.fn = size_of(t) == 8 ? binary<u64, u64, u32>([](u64 a, u32) { return a; })
                              : binary<u32, u32, u32>([](u32 a, u32) { return a; });
}
void getctarank(Decoder& d) {
  d.def(0, d.operand(0), Type::U32);
  d.inst.fn = unary<u32, u32>([](u32) { return 0u; });
  d.inst.op[1] = d.constant(0, Width::W32);
}

void nothing(Decoder& d) { d.inst.kind = Kind::Nop; }
// Threads that use fences may synchronise through memory, which the race detector does not follow.
void fence(Decoder& d) {
  const bool is_system = d.has("sys"), is_device = d.has("gpu") || d.has("gl") || d.has("cluster");
  d.inst.ordering = {is_system   ? Ordering::system
                     : is_device ? Ordering::device
                                 : Ordering::none,
                     true, true};
  d.inst.fn = [](Warp& w, const Inst& in, u32) {
    w.block->epoch += w.grid->race_check;
    if (in.ordering.scope != Ordering::none) w.grid->memory->fence(in.ordering);
  };
}
void createpolicy(Decoder& d) {
  d.def(0, d.operand(0), Type::B64);
  d.inst.op[1] = d.constant(0, Width::W64);
  d.inst.fn = unary<u64, u64>([](u64 a) { return a; });
}

// An address operand as a value in op[slot], its offset added.
void address_value(Decoder& d, unsigned slot, const Operand& o) {
  if (o.kind != Operand::Address) d.unsupported("an address is wanted");
  Operand base = o.items[0];
  if (base.kind == Operand::Register && o.value != 0) {
    d.use(slot, base, Type::U64);
    u32 from = d.inst.op[slot];
    Inst& i = d.emit_before();
    i.defs = 1, i.uses = 2;
    i.op[1] = from;
    i.op[2] = d.constant(o.value, Width::W64);
    i.fn = binary<u64, u64, u64>([](u64 a, u64 b) { return a + b; });
    i.op[0] = d.inst.op[slot] = d.temporary(Type::U64);
    return;
  }
  base.value += o.value;
  d.use(slot, base, Type::U64);
}
Space destination_space(const Decoder& d, bool& copies_to_shared) {
  // The first space named is the destination's.
  for (std::string_view m : d.ast->modifiers) {
    if (m == "shared" || m == "shared::cta" || m == "shared::cluster") {
      copies_to_shared = true;
      return Space::Shared;
    }
    if (m == "global") break;
  }
  copies_to_shared = false;
  return Space::Global;
}
void copy_lane(Warp& w, const Inst& in, int l, Space to, u64 d, Space from, u64 s, u32 bytes, u32 filled) {
  if (filled) {
    u8* destination = w.host(in, l, to, d, filled, true);
    u32 n = std::min(bytes, filled);
    const u8* source = n ? w.host(in, l, from, s, n, false) : nullptr;
    if (n) std::memmove(destination, source, n);
    if (n < filled) std::memset(destination + n, 0, filled - n);
  }
  ++w.grid->progress;
}

// ---- mbarrier: pending arrivals, expected arrivals, transactions and the phase in one word ----
struct Mbarrier {
  u64 word;
  u32 expected() const { return word & 0xfffff; }
  u32 pending() const { return word >> 20 & 0xfffff; }
  s32 transactions() const { return static_cast<s32>(static_cast<s64>(word << 1) >> 41); }
  bool phase() const { return word >> 63; }
  static u64 pack(u32 expected, u32 pending, s32 transactions, bool phase) {
    return (expected & 0xfffff) | u64{pending & 0xfffff} << 20 |
           (static_cast<u64>(transactions) & 0x7fffff) << 40 | u64{phase} << 63;
  }
  void update(u32 expected_now, u32 pending_now, s32 transactions_now) {
    bool p = phase();
    if (pending_now == 0 && transactions_now == 0) {
      p = !p;
      pending_now = expected_now;
    }
    word = pack(expected_now, pending_now, transactions_now, p);
  }
};
void with_mbarrier(Warp& w, const Inst& in, int l, u64 address, auto f) {
  Space s = address >> 56 ? Space::Generic : Space::Shared;
  u8* p = w.host(in, l, s, address, 8, true);
  Mbarrier b;
  std::memcpy(&b.word, p, 8);
  bool phase = b.phase();
  f(b);
  std::memcpy(p, &b.word, 8);
  ++w.grid->progress;
  if (b.phase() != phase) ++w.block->epoch;  // for the race detector: threads have met
}
void complete_transactions(Warp& w, const Inst& in, int l, u64 address, u32 bytes) {
  with_mbarrier(w, in, l, address, [&](Mbarrier& b) {
    b.update(b.expected(), b.pending(), b.transactions() - static_cast<s32>(bytes));
  });
}

// op: 0 destination, 1 source, 2 size, 3 mbarrier or source size, 4 ignore predicate
void cp_async(Decoder& d) {
  if (d.has("commit_group") || d.has("wait_group") || d.has("wait_all") || d.has("prefetch"))
    return nothing(d);
  if (d.has("tensor") || d.has("reduce")) d.unsupported();
  if (d.has("mbarrier")) {  // cp.async.mbarrier.arrive: all earlier copies are done
    address_value(d, 0, d.operand(0));
    bool no_inc = d.has("noinc");
    d.inst.sub = no_inc;
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[0]);
      each_lane(mask, [&](int l) {
        if (in.sub)
          with_mbarrier(w, in, l, a[l],
                        [](Mbarrier& b) { b.update(b.expected(), b.pending() - 1, b.transactions()); });
      });
    };
    return;
  }
  bool to_shared;
  Space to = destination_space(d, to_shared);
  address_value(d, 0, d.operand(0));
  address_value(d, 1, d.operand(1));
  d.use(2, d.operand(2), Type::U32);
  d.inst.space = to;
  if (d.has("bulk")) {
    bool from_shared = !to_shared || d.has("shared::cta");
    bool mbarrier = false;
    for (std::string_view m : d.ast->modifiers) mbarrier |= m == "mbarrier::complete_tx::bytes";
    if (to_shared && d.has("global")) from_shared = false;
    d.inst.sub = static_cast<u8>((from_shared ? 1 : 0) | (mbarrier ? 2 : 0));
    if (mbarrier) address_value(d, 3, d.operand(3));
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64 *to = w.in<u64>(in.op[0]), *from = w.in<u64>(in.op[1]);
      const u32* size = w.in<u32>(in.op[2]);
      const bool loads = !(in.sub & 1);  // else it stores
      each_lane(mask, [&](int l) {
        if (w.grid->counts) w.grid->counts->add_span(loads ? from[l] : to[l], size[l], !loads);
        if ((to[l] | from[l] | size[l]) & 15)
          w.address_fault(in, l, "cp.async.bulk needs 16-byte alignment and size",
                          to[l] & 15 ? to[l] : from[l]);
        copy_lane(w, in, l, in.space, to[l], in.sub & 1 ? Space::Shared : Space::Global, from[l], size[l],
                  size[l]);
        if (in.sub & 2) complete_transactions(w, in, l, w.in<u64>(in.op[3])[l], size[l]);
      });
    };
    return;
  }
  // cp.async.ca.shared.global [d], [s], size {, source size | ignore predicate} {, cache policy}
  d.inst.op[3] = d.inst.op[2];
  bool policy = d.has("L2::cache_hint");
  unsigned extra = d.operand_count() - 3 - (policy ? 1 : 0);
  if (extra >= 1) {
    const Operand& o = d.operand(3);
    if (o.kind == Operand::Register && d.types[o.index] == Type::Pred) {
      d.use_predicate(4, o);
      d.inst.sub = 1;
    } else {
      d.use(3, o, Type::U32);
    }
  }
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    const u64 *to = w.in<u64>(in.op[0]), *from = w.in<u64>(in.op[1]);
    const u32 *size = w.in<u32>(in.op[2]), *have = w.in<u32>(in.op[3]);
    u32 ignore = in.sub ? w.pred(in.op[4]) : 0;
    if (w.grid->counts && mask & ~ignore)
      w.grid->counts->add_access(from, mask & ~ignore, size[std::countr_zero(mask)], false);
    each_lane(mask, [&](int l) {
      if ((to[l] | from[l]) & (size[l] - 1)) w.address_fault(in, l, "misaligned cp.async", to[l]);
      copy_lane(w, in, l, Space::Shared, to[l], Space::Global, from[l], ignore >> l & 1 ? 0 : have[l],
                size[l]);
    });
  };
}

void mbarrier(Decoder& d) {
  auto fetch = [&](unsigned operand) { address_value(d, 1, d.operand(operand)); };
  if (d.has("init")) {
    fetch(0);
    d.use(2, d.operand(1), Type::U32);
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[1]);
      const u32* n = w.in<u32>(in.op[2]);
      each_lane(mask, [&](int l) {
        with_mbarrier(w, in, l, a[l], [&](Mbarrier& b) { b.word = Mbarrier::pack(n[l], n[l], 0, false); });
      });
    };
    return;
  }
  if (d.has("inval")) {
    fetch(0);
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[1]);
      each_lane(mask, [&](int l) { with_mbarrier(w, in, l, a[l], [](Mbarrier& b) { b.word = ~0ull; }); });
    };
    return;
  }
  if (d.has("expect_tx") && !d.has("arrive") && !d.has("arrive_drop")) {
    fetch(0);
    d.use(2, d.operand(1), Type::U32);
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[1]);
      const u32* n = w.in<u32>(in.op[2]);
      each_lane(mask, [&](int l) {
        with_mbarrier(w, in, l, a[l], [&](Mbarrier& b) {
          b.update(b.expected(), b.pending(), b.transactions() + static_cast<s32>(n[l]));
        });
      });
    };
    return;
  }
  if (d.has("complete_tx")) {
    fetch(0);
    d.use(2, d.operand(1), Type::U32);
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[1]);
      const u32* n = w.in<u32>(in.op[2]);
      each_lane(mask, [&](int l) { complete_transactions(w, in, l, a[l], n[l]); });
    };
    return;
  }
  if (d.has("arrive") || d.has("arrive_drop")) {
    bool has_state = d.operand(0).kind != Operand::Address;
    if (has_state) d.def(0, d.operand(0), Type::B64);
    fetch(has_state);
    unsigned next = has_state + 1u;
    bool transactions = d.has("expect_tx");
    if (d.operand_count() > next)
      d.use(2, d.operand(next), Type::U32);
    else
      d.inst.op[2] = d.constant(1, Width::W32);
    d.inst.sub =
        static_cast<u8>((has_state ? 1 : 0) | (transactions ? 2 : 0) | (d.has("arrive_drop") ? 4 : 0));
    d.inst.no_share = true;
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[1]);
      const u32* n = w.in<u32>(in.op[2]);
      each_lane(mask, [&](int l) {
        with_mbarrier(w, in, l, a[l], [&](Mbarrier& b) {
          u64 state = b.word;
          u32 arrivals = in.sub & 2 ? 1 : n[l];
          s32 transactions = b.transactions() + (in.sub & 2 ? static_cast<s32>(n[l]) : 0);
          if (arrivals > b.pending()) w.fault(in, l, "more arrivals at an mbarrier than it expects");
          b.update(b.expected() - (in.sub & 4 ? arrivals : 0), b.pending() - arrivals, transactions);
          if (in.sub & 1) w.reg<u64>(in.op[0])[l] = state;
        });
      });
    };
    return;
  }
  if (d.has("test_wait") || d.has("try_wait")) {
    bool parity = d.has("parity");
    d.def_predicate(0, d.operand(0));
    fetch(1);
    d.use(2, d.operand(2), parity ? Type::U32 : Type::B64);
    d.inst.sub = parity;
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u64* a = w.in<u64>(in.op[1]);
      u32 done = 0;
      each_lane(mask, [&](int l) {
        Space s = a[l] >> 56 ? Space::Generic : Space::Shared;
        Mbarrier b;
        std::memcpy(&b.word, w.host(in, l, s, a[l], 8, false), 8);
        bool waited = in.sub ? (w.in<u32>(in.op[2])[l] & 1) != 0 : w.in<u64>(in.op[2])[l] >> 63 != 0;
        if (b.phase() != waited) done |= 1u << l;
      });
      if (done != mask) w.spins += 32;
      w.set_pred(in.op[0], mask, done);
    };
    return;
  }
  if (d.has("pending_count")) {
    d.operands(Type::U32, {Type::B64});
    d.inst.fn = unary<u32, u64>([](u64 s) { return Mbarrier{s}.pending(); });
    return;
  }
  d.unsupported();
}

}  // namespace

void register_memory(Rules& r) {
  r["ld"] = r["ldu"] = r["st"] = memory_operation;
  r["cvta"] = cvta;
  r["isspacep"] = isspacep;
  r["mapa"] = mapa;
  r["getctarank"] = getctarank;
  r["cp"] = cp_async;
  r["mbarrier"] = mbarrier;
  r["createpolicy"] = createpolicy;
  r["membar"] = r["fence"] = fence;
  for (const char* op :
       {"prefetch", "prefetchu", "applypriority", "discard", "griddepcontrol", "setmaxnreg", "pmevent"})
    r[op] = nothing;
}

}  // namespace vgpu::ptx
