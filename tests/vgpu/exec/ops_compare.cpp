// setp, set, selp, slct.
#include "exec/decode.hpp"
#include "exec/lanes.hpp"

namespace vgpu::ptx {

namespace {

enum class Combine : u8 { None, And, Or, Xor };
Combine combination(const Decoder& d) {
  return d.has("and")   ? Combine::And
         : d.has("or")  ? Combine::Or
         : d.has("xor") ? Combine::Xor
                        : Combine::None;
}
u32 combined(u32 x, u32 c, u8 how) {
  switch (static_cast<Combine>(how)) {
    case Combine::And: return x & c;
    case Combine::Or: return x | c;
    case Combine::Xor: return x ^ c;
    default: return x;
  }
}

// Calls f with a functor for the comparison the instruction names; unordered forms hold for NaN too.
template <class T, class F>
bool with_comparison(std::string_view name, F f) {
  constexpr bool real = std::is_floating_point_v<T>;
  if (name == "eq")
    f([](T a, T b) { return a == b; });
  else if (name == "ne")
    f([](T a, T b) { return real ? a < b || a > b : a != b; });
  else if (name == "lt" || name == "lo")
    f([](T a, T b) { return a < b; });
  else if (name == "le" || name == "ls")
    f([](T a, T b) { return a <= b; });
  else if (name == "gt" || name == "hi")
    f([](T a, T b) { return a > b; });
  else if (name == "ge" || name == "hs")
    f([](T a, T b) { return a >= b; });
  else if constexpr (real) {
    if (name == "equ")
      f([](T a, T b) { return !(a < b || a > b); });
    else if (name == "neu")
      f([](T a, T b) { return !(a == b); });
    else if (name == "ltu")
      f([](T a, T b) { return !(a >= b); });
    else if (name == "leu")
      f([](T a, T b) { return !(a > b); });
    else if (name == "gtu")
      f([](T a, T b) { return !(a <= b); });
    else if (name == "geu")
      f([](T a, T b) { return !(a < b); });
    else if (name == "num")
      f([](T a, T b) { return a == a && b == b; });
    else if (name == "nan")
      f([](T a, T b) { return a != a || b != b; });
    else
      return false;
  } else {
    return false;
  }
  return true;
}

// The value to compare: halves as float.
template <class T>
auto comparable(T v) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bf16>)
    return to_float(v);
  else
    return v;
}
template <class T>
using Comparable = decltype(comparable(T{}));

// Compares the lanes of two operands into a mask. `shift` picks a half of a packed pair.
using Compare = u32 (*)(const void* a, const void* b, u32 shift);
template <class T, class F>
u32 compare_lanes(const void* pa, const void* pb, u32 shift) {
  const Lane<T>*a = static_cast<const Lane<T>*>(pa), *b = static_cast<const Lane<T>*>(pb);
  u32 r = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    auto x = comparable(LaneOf<T>::get(a[l] >> shift)), y = comparable(LaneOf<T>::get(b[l] >> shift));
    r |= F{}(x, y) ? kLaneBit[l] : 0;
  }
  return r;
}
template <class F>
struct WithFlush {
  bool operator()(float a, float b) const { return F{}(flush(a), flush(b)); }
};

std::string_view comparison_name(const Decoder& d) {
  if (d.ast->modifiers.empty()) d.unsupported();
  return d.ast->modifiers[0];
}

// f gets the C++ type; packed types give their element's.
template <class F>
void with_type(Decoder& d, Type t, F f) {
  switch (t) {
    case Type::U16:
    case Type::B16: return f(u16{});
    case Type::S16: return f(s16{});
    case Type::U32:
    case Type::B32: return f(u32{});
    case Type::S32: return f(s32{});
    case Type::U64:
    case Type::B64: return f(u64{});
    case Type::S64: return f(s64{});
    case Type::F32: return f(float{});
    case Type::F64: return f(double{});
    case Type::F16:
    case Type::F16x2: return f(half{});
    case Type::BF16:
    case Type::BF16x2: return f(bf16{});
    default: d.unsupported("type");
  }
}
Compare comparison(Decoder& d, Type t) {
  Compare result = nullptr;
  with_type(d, t, [&]<class T>(T) {
    with_comparison<Comparable<T>>(comparison_name(d), [&]<class F>(F) {
      if constexpr (std::is_same_v<T, float>) {
        if (d.has("ftz")) {
          result = compare_lanes<T, WithFlush<F>>;
          return;
        }
      }
      result = compare_lanes<T, F>;
    });
  });
  if (!result) d.unsupported("comparison");
  return result;
}

// op: 0 p, 1 a, 2 b, 3 q, 4 c
void setp(Decoder& d) {
  Type t = d.type();
  const Operand& r = d.operand(0);
  d.def_predicate(0, r);
  if (!r.items.empty()) d.def_predicate(3, r.items[0]);
  d.use(1, d.operand(1), t);
  d.use(2, d.operand(2), t);
  d.inst.sub = static_cast<u8>(combination(d));
  if (d.inst.sub) d.use_predicate(4, d.operand(3));
  bool packed = t == Type::F16x2 || t == Type::BF16x2;
  bool plain = !d.inst.sub && r.items.empty() && !packed && !d.has("ftz");
  if (plain) {
    with_type(d, t, [&]<class T>(T) {
      with_comparison<Comparable<T>>(comparison_name(d), [&]<class F>(F) {
        d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
          w.set_pred(in.op[0], mask,
                     compare_lanes<T, F>(w.in<Lane<T>>(in.op[1]), w.in<Lane<T>>(in.op[2]), 0));
        };
      });
    });
    if (!d.inst.fn) d.unsupported("comparison");
    return;
  }
  d.inst.imm = std::bit_cast<s64>(comparison(d, t));
  if (packed) {  // p is of the low halves, q of the high ones
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      Compare f = std::bit_cast<Compare>(in.imm);
      const u32 *a = w.in<u32>(in.op[1]), *b = w.in<u32>(in.op[2]);
      u32 low = f(a, b, 0), high = f(a, b, 16), c = in.sub ? w.pred(in.op[4]) : 0;
      w.set_pred(in.op[0], mask, combined(low, c, in.sub));
      w.set_pred(in.op[3], mask, combined(high, c, in.sub));
    };
    return;
  }
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    u32 x = std::bit_cast<Compare>(in.imm)(w.in<u32>(in.op[1]), w.in<u32>(in.op[2]), 0);
    u32 c = in.sub ? w.pred(in.op[4]) : 0;
    w.set_pred(in.op[0], mask, combined(x, c, in.sub));
    w.set_pred(in.op[3], mask, combined(~x, c, in.sub));
  };
}

void set(Decoder& d) {
  Type result = d.type(0), t = d.type(1);
  d.def(0, d.operand(0), result);
  d.use(1, d.operand(1), t);
  d.use(2, d.operand(2), t);
  d.inst.sub = static_cast<u8>(combination(d));
  if (d.inst.sub) d.use_predicate(4, d.operand(3));
  d.inst.imm = std::bit_cast<s64>(comparison(d, t));
  bool packed = t == Type::F16x2 || t == Type::BF16x2;
  // What "true" is, in one lane or half.
  u32 one = kFull;
  if (result == Type::F32)
    one = 0x3f800000;
  else if (result == Type::F16 || result == Type::F16x2)
    one = 0x3c00;
  else if (result == Type::BF16 || result == Type::BF16x2)
    one = 0x3f80;
  else if (size_of(result) == 2 || packed)
    one = 0xffff;
  else if (size_of(result) == 8)
    d.unsupported("type");
  d.inst.target = one;
  if (packed) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      Compare f = std::bit_cast<Compare>(in.imm);
      const u32 *a = w.in<u32>(in.op[1]), *b = w.in<u32>(in.op[2]);
      u32 c = in.sub ? w.pred(in.op[4]) : 0;
      u32 low = combined(f(a, b, 0), c, in.sub), high = combined(f(a, b, 16), c, in.sub), one = in.target;
      store_lanes<true>(w.reg<u32>(in.op[0]), mask, [=](u32 l) {
        return (low & kLaneBit[l] ? one : 0) | (high & kLaneBit[l] ? one << 16 : 0);
      });
    };
    return;
  }
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    u32 x = std::bit_cast<Compare>(in.imm)(w.in<u32>(in.op[1]), w.in<u32>(in.op[2]), 0);
    if (in.sub) x = combined(x, w.pred(in.op[4]), in.sub);
    u32 one = in.target;
    store_lanes<true>(w.reg<u32>(in.op[0]), mask, [=](u32 l) { return x & kLaneBit[l] ? one : 0; });
  };
}

template <class L>
void select(Warp& w, const Inst& in, u32 mask) {
  const L *a = w.in<L>(in.op[1]), *b = w.in<L>(in.op[2]);
  u32 p = w.pred(in.op[3]);
  store_lanes<true>(w.reg<L>(in.op[0]), mask, [=](u32 l) { return p & kLaneBit[l] ? a[l] : b[l]; });
}
void selp(Decoder& d) {
  Type t = d.type();
  if (t == Type::Pred) d.unsupported();
  d.def(0, d.operand(0), t);
  d.use(1, d.operand(1), t);
  d.use(2, d.operand(2), t);
  d.use_predicate(3, d.operand(3));
  if (size_of(t) > 8) d.unsupported("type");
  d.inst.fn = size_of(t) == 8 ? select<u64> : select<u32>;
}

void slct(Decoder& d) {
  Type t = d.type(0), by = d.type(1);
  d.operands(t, {t, t, by});
  bool wide = size_of(t) == 8;
  if (by == Type::S32) {
    d.inst.fn = wide ? ternary<u64, u64, u64, s32>([](u64 a, u64 b, s32 c) { return c >= 0 ? a : b; })
                     : ternary<u32, u32, u32, s32>([](u32 a, u32 b, s32 c) { return c >= 0 ? a : b; });
  } else if (by == Type::F32) {
    d.inst.fn = wide ? ternary<u64, u64, u64, float>([](u64 a, u64 b, float c) { return c >= 0 ? a : b; })
                     : ternary<u32, u32, u32, float>([](u32 a, u32 b, float c) { return c >= 0 ? a : b; });
  } else {
    d.unsupported("type");
  }
}

}  // namespace

void register_compare(Rules& r) {
  r["setp"] = setp;
  r["set"] = set;
  r["selp"] = selp;
  r["slct"] = slct;
}

}  // namespace vgpu::ptx
