// Integer arithmetic, bits, predicates' logic, comparison and selection of integers.
#include "exec/decode.hpp"
#include "exec/lanes.hpp"

namespace vgpu::ptx {

namespace {

template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
T remainder_of(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
template <class T>
T high_product(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<W>(a) * b) >> 64);
  } else {
    using W = std::conditional_t<std::is_signed_v<T>, s64, u64>;
    return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (8 * sizeof(T)));
  }
}
template <class T>
using Unsigned = std::make_unsigned_t<T>;
// Wraps around without signed overflow (and without the promotion of u16 to int overflowing).
template <class T>
T product(T a, T b) {
  using U = std::conditional_t<sizeof(T) == 8, u64, u32>;
  return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
}
template <class T>
T sum(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
}
template <class T>
T difference(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
}

// Calls f with a value of the C++ type for t; false when t is no integer type of 16 bits or more.
template <class F>
bool with_integer(Type t, F f) {
  switch (t) {
    case Type::U16:
    case Type::B16: f(u16{}); return true;
    case Type::S16: f(s16{}); return true;
    case Type::U32:
    case Type::B32: f(u32{}); return true;
    case Type::S32: f(s32{}); return true;
    case Type::U64:
    case Type::B64: f(u64{}); return true;
    case Type::S64: f(s64{}); return true;
    default: return false;
  }
}
template <class F>
void integer_or_refuse(Decoder& d, Type t, F f) {
  if (!with_integer(t, f)) d.unsupported("type");
}

// Two 16-bit halves, each computed apart.
template <class T, class F>
u32 halves(u32 a, u32 b, F f) {
  u32 lo = static_cast<u16>(f(static_cast<T>(a), static_cast<T>(b)));
  u32 hi = static_cast<u16>(f(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
  return lo | hi << 16;
}

void add_sub(Decoder& d) {
  Type t = d.type();
  if (decode_float_arithmetic(d)) return;
  bool add = d.opcode() == "add";
  if (t == Type::U16x2 || t == Type::S16x2) {
    d.operands(Type::B32, {Type::B32, Type::B32});
    d.inst.fn = add ? binary<u32, u32, u32>(
                          [](u32 a, u32 b) { return halves<u16>(a, b, [](u16 x, u16 y) { return x + y; }); })
                    : binary<u32, u32, u32>(
                          [](u32 a, u32 b) { return halves<u16>(a, b, [](u16 x, u16 y) { return x - y; }); });
    return;
  }
  d.operands(t, {t, t});
  // CC.CF after a subtraction is, as in hardware, the carry of a + ~b + 1: set when nothing was borrowed. The
  // PTX manual calls it the borrow, but nvcc's 128-bit division reads it with addc and counts on this.
  if (d.has("cc")) {
    integer_or_refuse(d, t, [&]<class T>(T) {
      using U = Unsigned<T>;
      auto make = [&]<bool kAdd>(std::bool_constant<kAdd>) -> Handler {
        return [](Warp& w, const Inst& in, u32 mask) {
          const Lane<U>*a = w.in<Lane<U>>(in.op[1]), *b = w.in<Lane<U>>(in.op[2]);
          Lane<U>* r = w.reg<Lane<U>>(in.op[0]);
          u32 carry = 0;
          each_lane(mask, [&](int l) {
            U x = static_cast<U>(a[l]), y = static_cast<U>(b[l]);
            U s = kAdd ? static_cast<U>(x + y) : static_cast<U>(x - y);
            if (kAdd ? s < x : x >= y) carry |= 1u << l;
            r[l] = s;
          });
          w.set_pred(kCarry, mask, carry);
        };
      };
      d.inst.fn = add ? make(std::true_type{}) : make(std::false_type{});
    });
    return;
  }
  if (d.has("sat")) {
    if (t != Type::S32) d.unsupported("sat");
    d.inst.fn = add ? binary<s32, s32, s32>([](s32 a, s32 b) {
      s64 s = s64{a} + b;
      return static_cast<s32>(s < INT32_MIN ? INT32_MIN : s > INT32_MAX ? INT32_MAX : s);
    })
                    : binary<s32, s32, s32>([](s32 a, s32 b) {
                        s64 s = s64{a} - b;
                        return static_cast<s32>(s < INT32_MIN ? INT32_MIN : s > INT32_MAX ? INT32_MAX : s);
                      });
    return;
  }
  integer_or_refuse(d, t, [&]<class T>(T) {
    d.inst.fn = add ? binary<T, T, T>([](T a, T b) { return sum(a, b); })
                    : binary<T, T, T>([](T a, T b) { return difference(a, b); });
  });
}

// addc and subc: with the carry in, perhaps with a carry out.
void add_carry(Decoder& d) {
  Type t = d.type();
  d.operands(t, {t, t});
  d.inst.sub = d.has("cc");
  bool add = d.opcode() == "addc";
  integer_or_refuse(d, t, [&]<class T>(T) {
    using U = Unsigned<T>;
    auto make = [&]<bool kAdd>(std::bool_constant<kAdd>) -> Handler {
      return [](Warp& w, const Inst& in, u32 mask) {
        const Lane<U>*a = w.in<Lane<U>>(in.op[1]), *b = w.in<Lane<U>>(in.op[2]);
        Lane<U>* r = w.reg<Lane<U>>(in.op[0]);
        u32 carry_in = w.pred(kCarry), carry = 0;
        each_lane(mask, [&](int l) {
          unsigned __int128 x = static_cast<U>(a[l]), y = static_cast<U>(b[l]), c = carry_in >> l & 1;
          unsigned __int128 s = kAdd ? x + y + c : x + static_cast<U>(~static_cast<U>(y)) + c;
          if (s >> (8 * sizeof(U)) & 1) carry |= 1u << l;
          r[l] = static_cast<U>(s);
        });
        if (in.sub) w.set_pred(kCarry, mask, carry);
      };
    };
    d.inst.fn = add ? make(std::true_type{}) : make(std::false_type{});
  });
}

void mul(Decoder& d) {
  Type t = d.type();
  if (is_float(t)) {
    if (!decode_float_arithmetic(d)) d.unsupported();
    return;
  }
  if (d.has("wide")) {
    Type wide = t == Type::U16   ? Type::U32
                : t == Type::S16 ? Type::S32
                : t == Type::U32 ? Type::U64
                                 : Type::S64;
    d.operands(wide, {t, t});
    switch (t) {
      case Type::U16: d.inst.fn = binary<u32, u16, u16>([](u16 a, u16 b) { return u32{a} * b; }); break;
      case Type::S16: d.inst.fn = binary<s32, s16, s16>([](s16 a, s16 b) { return s32{a} * b; }); break;
      case Type::U32: d.inst.fn = binary<u64, u32, u32>([](u32 a, u32 b) { return u64{a} * b; }); break;
      case Type::S32: d.inst.fn = binary<s64, s32, s32>([](s32 a, s32 b) { return s64{a} * b; }); break;
      default: d.unsupported("type");
    }
    return;
  }
  d.operands(t, {t, t});
  integer_or_refuse(d, t, [&]<class T>(T) {
    d.inst.fn = d.has("hi") ? binary<T, T, T>([](T a, T b) { return high_product(a, b); })
                            : binary<T, T, T>([](T a, T b) { return product(a, b); });
  });
}

void mad(Decoder& d) {
  Type t = d.type();
  if (is_float(t)) {
    if (!decode_float_arithmetic(d)) d.unsupported();
    return;
  }
  if (d.has("wide")) {
    Type wide = t == Type::U16   ? Type::U32
                : t == Type::S16 ? Type::S32
                : t == Type::U32 ? Type::U64
                                 : Type::S64;
    d.operands(wide, {t, t, wide});
    switch (t) {
      case Type::U16:
        d.inst.fn = ternary<u32, u16, u16, u32>([](u16 a, u16 b, u32 c) { return u32{a} * b + c; });
        break;
      case Type::S16:
        d.inst.fn = ternary<s32, s16, s16, s32>([](s16 a, s16 b, s32 c) { return sum(s32{a} * b, c); });
        break;
      case Type::U32:
        d.inst.fn = ternary<u64, u32, u32, u64>([](u32 a, u32 b, u64 c) { return u64{a} * b + c; });
        break;
      case Type::S32:
        d.inst.fn = ternary<s64, s32, s32, s64>([](s32 a, s32 b, s64 c) { return sum(s64{a} * b, c); });
        break;
      default: d.unsupported("type");
    }
    return;
  }
  bool carry_in = d.opcode() == "madc", carry_out = d.has("cc"), high = d.has("hi");
  d.operands(t, {t, t, t});
  if (carry_in || carry_out) {
    d.inst.sub = static_cast<u8>((carry_in ? 1 : 0) | (carry_out ? 2 : 0) | (high ? 4 : 0));
    integer_or_refuse(d, t, [&]<class T>(T) {
      using U = Unsigned<T>;
      d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
        const Lane<U>*a = w.in<Lane<U>>(in.op[1]), *b = w.in<Lane<U>>(in.op[2]), *c = w.in<Lane<U>>(in.op[3]);
        Lane<U>* r = w.reg<Lane<U>>(in.op[0]);
        u32 carries = in.sub & 1 ? w.pred(kCarry) : 0, carry = 0;
        each_lane(mask, [&](int l) {
          T x = static_cast<T>(a[l]), y = static_cast<T>(b[l]);
          unsigned __int128 p = static_cast<U>(in.sub & 4 ? high_product(x, y) : product(x, y));
          unsigned __int128 s = p + static_cast<U>(c[l]) + (carries >> l & 1);
          if (s >> (8 * sizeof(U)) & 1) carry |= 1u << l;
          r[l] = static_cast<U>(s);
        });
        if (in.sub & 2) w.set_pred(kCarry, mask, carry);
      };
    });
    return;
  }
  if (d.has("sat")) {
    if (t != Type::S32 || !high) d.unsupported("sat");
    d.inst.fn = ternary<s32, s32, s32, s32>([](s32 a, s32 b, s32 c) {
      s64 s = s64{high_product(a, b)} + c;
      return static_cast<s32>(s < INT32_MIN ? INT32_MIN : s > INT32_MAX ? INT32_MAX : s);
    });
    return;
  }
  integer_or_refuse(d, t, [&]<class T>(T) {
    d.inst.fn = high ? ternary<T, T, T, T>([](T a, T b, T c) { return sum(high_product(a, b), c); })
                     : ternary<T, T, T, T>([](T a, T b, T c) { return sum(product(a, b), c); });
  });
}

void mul24(Decoder& d) {
  Type t = d.type();
  bool is_mad = d.opcode() == "mad24", high = d.has("hi");
  if (is_mad)
    d.operands(t, {t, t, t});
  else
    d.operands(t, {t, t});
  if (t == Type::U32) {
    static constexpr auto lo = [](u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); };
    static constexpr auto hi = [](u32 a, u32 b) {
      return static_cast<u32>((u64{a & 0xffffff} * (b & 0xffffff)) >> 16);
    };
    if (is_mad) {
      d.inst.fn = high ? ternary<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return hi(a, b) + c; })
                       : ternary<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return lo(a, b) + c; });
    } else {
      d.inst.fn = high ? binary<u32, u32, u32>([](u32 a, u32 b) { return hi(a, b); })
                       : binary<u32, u32, u32>([](u32 a, u32 b) { return lo(a, b); });
    }
  } else if (t == Type::S32) {
    static constexpr auto wide = [](s32 a, s32 b) {
      return s64{static_cast<s32>(static_cast<u32>(a) << 8) >> 8} *
             (static_cast<s32>(static_cast<u32>(b) << 8) >> 8);
    };
    if (is_mad) {
      d.inst.fn = high ? ternary<s32, s32, s32, s32>(
                             [](s32 a, s32 b, s32 c) { return sum(static_cast<s32>(wide(a, b) >> 16), c); })
                       : ternary<s32, s32, s32, s32>(
                             [](s32 a, s32 b, s32 c) { return sum(static_cast<s32>(wide(a, b)), c); });
    } else {
      d.inst.fn = high
                      ? binary<s32, s32, s32>([](s32 a, s32 b) { return static_cast<s32>(wide(a, b) >> 16); })
                      : binary<s32, s32, s32>([](s32 a, s32 b) { return static_cast<s32>(wide(a, b)); });
    }
  } else {
    d.unsupported("type");
  }
}

void div_rem(Decoder& d) {
  Type t = d.type();
  if (is_float(t)) {
    if (!decode_float_arithmetic(d)) d.unsupported();
    return;
  }
  d.operands(t, {t, t});
  integer_or_refuse(d, t, [&]<class T>(T) {
    d.inst.fn = d.opcode() == "div" ? binary<T, T, T, false>([](T a, T b) { return quotient(a, b); })
                                    : binary<T, T, T, false>([](T a, T b) { return remainder_of(a, b); });
  });
}

void abs_neg(Decoder& d) {
  Type t = d.type();
  if (is_float(t)) {
    if (!decode_float_arithmetic(d)) d.unsupported();
    return;
  }
  d.operands(t, {t});
  integer_or_refuse(d, t, [&]<class T>(T) {
    d.inst.fn = d.opcode() == "neg" ? unary<T, T>([](T a) { return difference(T{0}, a); })
                                    : unary<T, T>([](T a) { return a < 0 ? difference(T{0}, a) : a; });
  });
}

void min_max(Decoder& d) {
  Type t = d.type();
  if (is_float(t)) {
    if (!decode_float_arithmetic(d)) d.unsupported();
    return;
  }
  bool is_min = d.opcode() == "min";
  bool relu = d.has("relu");
  if (t == Type::U16x2 || t == Type::S16x2) {
    d.operands(Type::B32, {Type::B32, Type::B32});
    d.inst.imm = relu;
    auto pick = [&]<class T>(T) {
      d.inst.fn = is_min ? binary_with<u32, u32, u32>([](u32 a, u32 b, s64 r) {
        return halves<T>(a, b, [r](T x, T y) {
          T m = x < y ? x : y;
          return r && m < 0 ? T{0} : m;
        });
      })
                         : binary_with<u32, u32, u32>([](u32 a, u32 b, s64 r) {
                             return halves<T>(a, b, [r](T x, T y) {
                               T m = x > y ? x : y;
                               return r && m < 0 ? T{0} : m;
                             });
                           });
    };
    if (t == Type::U16x2)
      pick(u16{});
    else
      pick(s16{});
    return;
  }
  d.operands(t, {t, t});
  integer_or_refuse(d, t, [&]<class T>(T) {
    if (relu) {
      d.inst.fn = is_min ? binary<T, T, T>([](T a, T b) {
        T m = a < b ? a : b;
        return m < 0 ? T{0} : m;
      })
                         : binary<T, T, T>([](T a, T b) {
                             T m = a > b ? a : b;
                             return m < 0 ? T{0} : m;
                           });
    } else {
      d.inst.fn = is_min ? binary<T, T, T>([](T a, T b) { return a < b ? a : b; })
                         : binary<T, T, T>([](T a, T b) { return a > b ? a : b; });
    }
  });
}

void sad(Decoder& d) {
  Type t = d.type();
  d.operands(t, {t, t, t});
  integer_or_refuse(d, t, [&]<class T>(T) {
    d.inst.fn = ternary<T, T, T, T>(
        [](T a, T b, T c) { return sum(c, a < b ? difference(b, a) : difference(a, b)); });
  });
}

void logic(Decoder& d) {
  Type t = d.type();
  std::string_view op = d.opcode();
  if (t == Type::Pred) {
    d.def_predicate(0, d.operand(0));
    for (unsigned i = 1; i < d.operand_count(); ++i) d.use_predicate(i, d.operand(i));
    if (op == "and")
      d.inst.fn = [](Warp& w, const Inst& in, u32 m) {
        w.set_pred(in.op[0], m, w.pred(in.op[1]) & w.pred(in.op[2]));
      };
    else if (op == "or")
      d.inst.fn = [](Warp& w, const Inst& in, u32 m) {
        w.set_pred(in.op[0], m, w.pred(in.op[1]) | w.pred(in.op[2]));
      };
    else if (op == "xor")
      d.inst.fn = [](Warp& w, const Inst& in, u32 m) {
        w.set_pred(in.op[0], m, w.pred(in.op[1]) ^ w.pred(in.op[2]));
      };
    else if (op == "not")
      d.inst.fn = [](Warp& w, const Inst& in, u32 m) { w.set_pred(in.op[0], m, ~w.pred(in.op[1])); };
    else
      d.unsupported();
    return;
  }
  auto pick = [&]<class T>(T) {
    if (op == "not") {
      d.operands(t, {t});
      d.inst.fn = unary<T, T>([](T a) { return static_cast<T>(~a); });
    } else if (op == "cnot") {
      d.operands(t, {t});
      d.inst.fn = unary<T, T>([](T a) { return static_cast<T>(a == 0); });
    } else {
      d.operands(t, {t, t});
      d.inst.fn = op == "and"  ? binary<T, T, T>([](T a, T b) { return static_cast<T>(a & b); })
                  : op == "or" ? binary<T, T, T>([](T a, T b) { return static_cast<T>(a | b); })
                               : binary<T, T, T>([](T a, T b) { return static_cast<T>(a ^ b); });
    }
  };
  switch (size_of(t)) {
    case 2: return pick(u16{});
    case 4: return pick(u32{});
    case 8: return pick(u64{});
    default: d.unsupported("type");
  }
}

void shift(Decoder& d) {
  Type t = d.type();
  d.operands(t, {t, Type::U32});
  integer_or_refuse(d, t, [&]<class T>(T) {
    constexpr u32 bits = 8 * sizeof(T);
    if (d.opcode() == "shl") {
      d.inst.fn = binary<T, T, u32>([](T a, u32 n) {
        return static_cast<T>(n < bits ? static_cast<Unsigned<T>>(a) << (n & (bits - 1)) : 0);
      });
    } else {
      d.inst.fn = binary<T, T, u32>([](T a, u32 n) {
        if constexpr (std::is_signed_v<T>)
          return static_cast<T>(a >> (n < bits ? n : bits - 1));
        else
          return static_cast<T>(n < bits ? a >> (n & (bits - 1)) : 0);
      });
    }
  });
}

void funnel_shift(Decoder& d) {
  d.operands(Type::B32, {Type::B32, Type::B32, Type::U32});
  bool left = d.has("l"), clamp = d.has("clamp");
  // a is the low word, b the high one.
  if (left) {
    d.inst.fn = clamp ? ternary<u32, u32, u32, u32>([](u32 a, u32 b, u32 n) {
      n = n > 32 ? 32 : n;
      return static_cast<u32>(((u64{b} << 32 | a) << n) >> 32);
    })
                      : ternary<u32, u32, u32, u32>([](u32 a, u32 b, u32 n) {
                          return static_cast<u32>(((u64{b} << 32 | a) << (n & 31)) >> 32);
                        });
  } else {
    d.inst.fn = clamp ? ternary<u32, u32, u32, u32>([](u32 a, u32 b, u32 n) {
      n = n > 32 ? 32 : n;
      return static_cast<u32>((u64{b} << 32 | a) >> n);
    })
                      : ternary<u32, u32, u32, u32>([](u32 a, u32 b, u32 n) {
                          return static_cast<u32>((u64{b} << 32 | a) >> (n & 31));
                        });
  }
}

// The table's bit for each combination of input bits.
u32 lop3_of(u32 a, u32 b, u32 c, u32 table) {
  u32 r = 0;
  for (u32 i = 0; i < 8; ++i)
    if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return r;
}
void lop3(Decoder& d) {
  bool logical = d.has("or") || d.has("and");  // with a predicate result
  const Operand& result = d.operand(0);
  d.def(0, result, Type::B32);
  for (unsigned i = 1; i <= 3; ++i) d.use(i, d.operand(i), Type::B32);
  if (d.operand(4).kind != Operand::Integer) d.unsupported("table");
  d.inst.imm = static_cast<s64>(d.operand(4).value);
  if (logical) {
    if (result.items.empty()) d.unsupported("operands");
    d.def_predicate(4, result.items[0]);
    d.use_predicate(5, d.operand(5));
    d.inst.sub = d.has("and");
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u32 *a = w.in<u32>(in.op[1]), *b = w.in<u32>(in.op[2]), *c = w.in<u32>(in.op[3]);
      u32 nonzero = 0, t[kLanes];
      for (u32 l = 0; l < kLanes; ++l) {
        t[l] = lop3_of(a[l], b[l], c[l], static_cast<u32>(in.imm));
        nonzero |= t[l] ? 1u << l : 0;
      }
      u32 q = w.pred(in.op[5]);
      store_lanes<true>(w.reg<u32>(in.op[0]), mask, [&](u32 l) { return t[l]; });
      w.set_pred(in.op[4], mask, in.sub ? nonzero & q : nonzero | q);
    };
    return;
  }
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    const u32 *a = w.in<u32>(in.op[1]), *b = w.in<u32>(in.op[2]), *c = w.in<u32>(in.op[3]);
    const u32 table = static_cast<u32>(in.imm);
    u32 m[8];
    for (u32 i = 0; i < 8; ++i) m[i] = table >> i & 1 ? kFull : 0;
    store_lanes<true>(w.reg<u32>(in.op[0]), mask, [=](u32 l) {
      u32 x = a[l], y = b[l], z = c[l];
      u32 n = (z & m[1]) | (~z & m[0]), p = (z & m[3]) | (~z & m[2]);
      u32 q = (z & m[5]) | (~z & m[4]), s = (z & m[7]) | (~z & m[6]);
      return (x & ((y & s) | (~y & q))) | (~x & ((y & p) | (~y & n)));
    });
  };
}

void count_bits(Decoder& d) {
  Type t = d.type();
  d.operands(Type::U32, {t});
  bool wide = size_of(t) == 8;
  if (d.opcode() == "popc")
    d.inst.fn = wide ? unary<u32, u64>([](u64 a) { return static_cast<u32>(std::popcount(a)); })
                     : unary<u32, u32>([](u32 a) { return static_cast<u32>(std::popcount(a)); });
  else
    d.inst.fn = wide ? unary<u32, u64>([](u64 a) { return static_cast<u32>(std::countl_zero(a)); })
                     : unary<u32, u32>([](u32 a) { return static_cast<u32>(std::countl_zero(a)); });
}

void bfind(Decoder& d) {
  Type t = d.type();
  d.operands(Type::U32, {t});
  bool shift_amount = d.has("shiftamt");
  integer_or_refuse(d, t, [&]<class T>(T) {
    if constexpr (sizeof(T) >= 4) {
      static constexpr auto highest = [](T a) {
        Unsigned<T> u = static_cast<Unsigned<T>>(a);
        if (std::is_signed_v<T> && a < 0) u = static_cast<Unsigned<T>>(~u);
        return u ? static_cast<u32>(8 * sizeof(T) - 1 - static_cast<u32>(std::countl_zero(u))) : kFull;
      };
      d.inst.fn = shift_amount ? unary<u32, T>([](T a) {
        u32 n = highest(a);
        return n == kFull ? n : static_cast<u32>(8 * sizeof(T) - 1) - n;
      })
                               : unary<u32, T>([](T a) { return highest(a); });
    } else {
      d.unsupported("type");
    }
  });
}

template <class T>
T reversed(T a) {
  T r = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i) r |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
  return r;
}
void brev(Decoder& d) {
  Type t = d.type();
  d.operands(t, {t});
  d.inst.fn = size_of(t) == 8 ? unary<u64, u64>([](u64 a) { return reversed(a); })
                              : unary<u32, u32>([](u32 a) { return reversed(a); });
}

template <class T>
T extract(T a, u32 position, u32 length) {
  constexpr u32 bits = 8 * sizeof(T);
  position &= 0xff;
  length &= 0xff;
  using U = Unsigned<T>;
  U u = static_cast<U>(a);
  U fill = 0;
  if (std::is_signed_v<T> && length) {
    u32 at = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
    fill = static_cast<U>(u >> at & 1 ? ~U{0} : U{0});
  }
  U r = position < bits ? u >> position : U{0};
  u32 have = position < bits ? bits - position : 0;  // bits of r that come from a
  u32 keep = length < have ? length : have;
  U mask = keep >= bits ? ~U{0} : static_cast<U>((U{1} << keep) - 1);
  return static_cast<T>((r & mask) | (fill & ~mask));
}
void bfe(Decoder& d) {
  Type t = d.type();
  d.operands(t, {t, Type::U32, Type::U32});
  integer_or_refuse(d, t, [&]<class T>(T) {
    d.inst.fn = ternary<T, T, u32, u32>([](T a, u32 p, u32 n) { return extract(a, p, n); });
  });
}
template <class U>
U insert(U a, U b, u32 position, u32 length) {
  constexpr u32 bits = 8 * sizeof(U);
  position &= 0xff;
  length &= 0xff;
  if (position >= bits || length == 0) return b;
  U ones = length >= bits ? ~U{0} : static_cast<U>((U{1} << length) - 1);
  U mask = ones << position;
  return (b & ~mask) | ((a << position) & mask);
}
void bfi(Decoder& d) {
  Type t = d.type();
  d.operands(t, {t, t, Type::U32, Type::U32});
  auto make = [&]<class U>(U) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const U *a = w.in<U>(in.op[1]), *b = w.in<U>(in.op[2]);
      const u32 *p = w.in<u32>(in.op[3]), *n = w.in<u32>(in.op[4]);
      store_lanes<true>(w.reg<U>(in.op[0]), mask, [=](u32 l) { return insert(a[l], b[l], p[l], n[l]); });
    };
  };
  if (size_of(t) == 8)
    make(u64{});
  else
    make(u32{});
}
void bmsk(Decoder& d) {
  d.operands(Type::B32, {Type::U32, Type::U32});
  if (d.has("clamp")) {
    d.inst.fn = binary<u32, u32, u32>([](u32 a, u32 b) {
      if (a >= 32) return u32{0};
      u64 ones = b >= 32 ? 0xffffffffull : (1ull << b) - 1;
      return static_cast<u32>(ones << a);
    });
  } else {
    d.inst.fn = binary<u32, u32, u32>([](u32 a, u32 b) { return ((1u << (b & 31)) - 1) << (a & 31); });
  }
}
void szext(Decoder& d) {
  Type t = d.type();
  d.operands(t, {t, Type::U32});
  bool clamp = d.has("clamp");
  if (t == Type::S32) {
    static constexpr auto f = [](u32 a, u32 n) {
      if (n == 0) return 0u;
      if (n >= 32) return a;
      return static_cast<u32>(static_cast<s32>(a << (32 - n)) >> (32 - n));
    };
    d.inst.fn = clamp ? binary<u32, u32, u32>([](u32 a, u32 n) { return f(a, n); })
                      : binary<u32, u32, u32>([](u32 a, u32 n) { return f(a, n & 31); });
  } else {
    static constexpr auto f = [](u32 a, u32 n) { return n >= 32 ? a : a & ((1u << n) - 1); };
    d.inst.fn = clamp ? binary<u32, u32, u32>([](u32 a, u32 n) { return f(a, n); })
                      : binary<u32, u32, u32>([](u32 a, u32 n) { return f(a, n & 31); });
  }
}

u32 permuted(u32 a, u32 b, u32 c) {
  u64 v = u64{b} << 32 | a;
  u32 r = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 s = c >> (4 * i) & 0xf;
    u32 byte = static_cast<u32>(v >> (8 * (s & 7))) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= byte << (8 * i);
  }
  return r;
}
// The n-th set bit of the mask from `base` on, upwards for n > 0, downwards for n < 0.
u32 nth_set(u32 mask, u32 base, s32 n) {
  if (n == 0) return base < 32 && mask >> base & 1 ? base : kFull;
  s32 step = n > 0 ? 1 : -1, left = n > 0 ? n : -n;
  for (s64 at = base; at >= 0 && at < 32; at += step)
    if (mask >> at & 1 && --left == 0) return static_cast<u32>(at);
  return kFull;
}
void fns(Decoder& d) {
  d.operands(Type::B32, {Type::B32, Type::B32, Type::S32});
  d.inst.fn = ternary<u32, u32, u32, s32, false>([](u32 m, u32 b, s32 n) { return nth_set(m, b, n); });
}

void prmt(Decoder& d) {
  d.operands(Type::B32, {Type::B32, Type::B32, Type::B32});
  std::string_view mode;
  for (std::string_view m : d.ast->modifiers)
    if (m != "b32") mode = m;
  if (mode.empty()) {
    // A constant selector is the rule; its byte moves are then the same in all lanes.
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u32 *a = w.in<u32>(in.op[1]), *b = w.in<u32>(in.op[2]), *c = w.in<u32>(in.op[3]);
      u32* r = w.reg<u32>(in.op[0]);
      if ((in.op[3] & kConstant) && !(c[0] & 0x8888)) {
        u32 s0 = 8 * (c[0] & 7), s1 = 8 * (c[0] >> 4 & 7), s2 = 8 * (c[0] >> 8 & 7),
            s3 = 8 * (c[0] >> 12 & 7);
        store_lanes<true>(r, mask, [=](u32 l) {
          u64 v = u64{b[l]} << 32 | a[l];
          return static_cast<u32>((v >> s0 & 0xff) | (v >> s1 & 0xff) << 8 | (v >> s2 & 0xff) << 16 |
                                  (v >> s3 & 0xff) << 24);
        });
        return;
      }
      store_lanes<true>(r, mask, [=](u32 l) { return permuted(a[l], b[l], c[l]); });
    };
    return;
  }
  // Each mode's selector for c & 3; never destroyed, as in type_named.
  static const auto& modes = *new const std::unordered_map<std::string_view, std::array<u16, 4>>{
      {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
      {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
      {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};
  auto it = modes.find(mode);
  if (it == modes.end()) d.unsupported("mode");
  u64 packed = 0;
  for (int i = 0; i < 4; ++i) packed |= u64{it->second[static_cast<unsigned>(i)]} << (16 * i);
  d.inst.imm = static_cast<s64>(packed);
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    const u32 *a = w.in<u32>(in.op[1]), *b = w.in<u32>(in.op[2]), *c = w.in<u32>(in.op[3]);
    const u64 table = static_cast<u64>(in.imm);
    store_lanes<true>(w.reg<u32>(in.op[0]), mask, [=](u32 l) {
      return permuted(a[l], b[l], static_cast<u32>(table >> (16 * (c[l] & 3))) & 0xffff);
    });
  };
}

// dp4a and dp2a: a's and b's signs are independent.
void dot(Decoder& d) {
  Type ta = d.type(0), tb = d.type(1);
  d.operands(Type::B32, {Type::B32, Type::B32, Type::B32});
  bool four = d.opcode() == "dp4a", high = d.has("hi");
  d.inst.sub =
      static_cast<u8>((is_signed(ta) ? 1 : 0) | (is_signed(tb) ? 2 : 0) | (four ? 4 : 0) | (high ? 8 : 0));
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    const u32 *a = w.in<u32>(in.op[1]), *b = w.in<u32>(in.op[2]), *c = w.in<u32>(in.op[3]);
    const u8 sub = in.sub;
    store_lanes<true>(w.reg<u32>(in.op[0]), mask, [=](u32 l) {
      u32 s = c[l];
      auto byte = [](u32 v, u32 i, bool sign) {
        return sign ? s32{static_cast<s8>(v >> (8 * i))} : static_cast<s32>(v >> (8 * i) & 0xff);
      };
      auto word = [](u32 v, u32 i, bool sign) {
        return sign ? s32{static_cast<s16>(v >> (16 * i))} : static_cast<s32>(v >> (16 * i) & 0xffff);
      };
      if (sub & 4) {
        for (u32 i = 0; i < 4; ++i) s += static_cast<u32>(byte(a[l], i, sub & 1) * byte(b[l], i, sub & 2));
      } else {
        for (u32 i = 0; i < 2; ++i)
          s += static_cast<u32>(word(a[l], i, sub & 1) * byte(b[l], i + (sub & 8 ? 2 : 0), sub & 2));
      }
      return s;
    });
  };
}

}  // namespace

// Scalar video instructions that nvcc's SIMD intrinsics use: byte and half-word lanes of a word.
namespace {
template <class T, class F>
u32 packed(u32 a, u32 b, F f) {
  constexpr u32 bits = 8 * sizeof(T);
  u32 r = 0;
  for (u32 i = 0; i < 32; i += bits)
    r |= static_cast<u32>(
             static_cast<std::make_unsigned_t<T>>(f(static_cast<T>(a >> i), static_cast<T>(b >> i))))
         << i;
  return r;
}
void video(Decoder& d) {
  std::string_view op = d.opcode();
  bool bytes = op.back() == '4';
  std::string_view name = op.substr(0, op.size() - 1);
  bool sign = d.type() == Type::S32;
  d.def(0, d.operand(0), Type::B32);
  for (unsigned i = 1; i <= 3; ++i) d.use(i, d.operand(i), Type::B32);
  bool accumulate = d.has("add");
  if (d.has("sat")) d.unsupported("sat");
  d.inst.sub = accumulate;
  auto make = [&]<class T>(T) {
    auto with = [&]<class F>(F) {
      d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
        const u32 *a = w.in<u32>(in.op[1]), *b = w.in<u32>(in.op[2]), *c = w.in<u32>(in.op[3]);
        store_lanes<false>(w.reg<u32>(in.op[0]), mask, [&](u32 l) {
          u32 r = packed<T>(a[l], b[l], F{});
          if (!in.sub) return r;
          u32 s = c[l];
          for (u32 i = 0; i < 32; i += 8 * sizeof(T))
            s += static_cast<u32>(static_cast<s32>(static_cast<T>(r >> i)));
          return s;
        });
      };
    };
    if (name == "vadd")
      with([](T a, T b) { return static_cast<T>(a + b); });
    else if (name == "vsub")
      with([](T a, T b) { return static_cast<T>(a - b); });
    else if (name == "vmin")
      with([](T a, T b) { return a < b ? a : b; });
    else if (name == "vmax")
      with([](T a, T b) { return a > b ? a : b; });
    else if (name == "vabsdiff")
      with([](T a, T b) { return static_cast<T>(a > b ? a - b : b - a); });
    else if (name == "vavrg")
      with([](T a, T b) { return static_cast<T>((a + b + (a + b >= 0)) >> 1); });
    else
      d.unsupported();
  };
  if (bytes)
    sign ? make(s8{}) : make(u8{});
  else
    sign ? make(s16{}) : make(u16{});
}
}  // namespace

void register_integer(Rules& r) {
  r["add"] = r["sub"] = add_sub;
  r["addc"] = r["subc"] = add_carry;
  r["mul"] = mul;
  r["mad"] = r["madc"] = mad;
  r["mul24"] = r["mad24"] = mul24;
  r["div"] = r["rem"] = div_rem;
  r["abs"] = r["neg"] = abs_neg;
  r["min"] = r["max"] = min_max;
  r["sad"] = sad;
  r["and"] = r["or"] = r["xor"] = r["not"] = r["cnot"] = logic;
  r["shl"] = r["shr"] = shift;
  r["shf"] = funnel_shift;
  r["lop3"] = lop3;
  r["popc"] = r["clz"] = count_bits;
  r["bfind"] = bfind;
  r["brev"] = brev;
  r["bfe"] = bfe;
  r["bfi"] = bfi;
  r["bmsk"] = bmsk;
  r["szext"] = szext;
  r["prmt"] = prmt;
  r["fns"] = fns;
  r["dp4a"] = r["dp2a"] = dot;
  for (const char* v : {"vadd2", "vsub2", "vmin2", "vmax2", "vabsdiff2", "vavrg2", "vadd4", "vsub4", "vmin4",
                        "vmax4", "vabsdiff4", "vavrg4"})
    r[v] = video;
}

}  // namespace vgpu::ptx
