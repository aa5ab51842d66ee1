// cvt in all its forms.
#include <algorithm>

#include "exec/decode.hpp"
#include "exec/lanes.hpp"

namespace vgpu::ptx {

namespace {

constexpr u8 kFtz = 8, kSat = 16, kIntegral = 32, kRelu = 64;
Round mode_of(u8 m) { return static_cast<Round>(m & 7); }

// Small signed results are extended over the lane, as the register may be wider than the type.
template <class D>
Lane<D> put(D v) {
  if constexpr (std::is_integral_v<D> && std::is_signed_v<D> && sizeof(D) < 4)
    return static_cast<u32>(static_cast<s32>(v));
  else
    return LaneOf<D>::put(v);
}

template <class T>
constexpr bool is_small_float = std::is_same_v<T, half> || std::is_same_v<T, bf16>;
template <class T>
constexpr bool is_real = std::is_floating_point_v<T> || is_small_float<T>;

template <class S>
double real_of(S s) {
  if constexpr (is_small_float<S>)
    return to_double(s);
  else
    return static_cast<double>(s);
}

template <class D>
D clamped(double v) {  // v integral or NaN
  using L = std::numeric_limits<D>;
  if (v != v) return sizeof(D) == 8 ? static_cast<D>(1ull << 63) : D{0};
  constexpr double above =
      sizeof(D) == 8 ? (std::is_signed_v<D> ? 0x1p63 : 0x1p64) : static_cast<double>(L::max()) + 1;
  if (v >= above) return L::max();
  if (v <= static_cast<double>(L::min())) return L::min();
  return static_cast<D>(v);
}
template <class D, class S>
D saturated_integer(S s) {
  using L = std::numeric_limits<D>;
  __int128 v = s;
  if (v < static_cast<__int128>(L::min())) return L::min();
  if (v > static_cast<__int128>(L::max())) return L::max();
  return static_cast<D>(v);
}

// One conversion under modifiers.
template <class D, class S>
D converted(S s, u8 m) {
  if constexpr (!is_real<D> && !is_real<S>) {
    return m & kSat ? saturated_integer<D>(s) : static_cast<D>(s);
  } else if constexpr (!is_real<D>) {
    double v = real_of(s);
    if constexpr (std::is_same_v<S, float>)
      if (m & kFtz) v = flush(s);
    return clamped<D>(integral(v, mode_of(m)));
  } else {
    // To a floating-point format.
    if constexpr (!is_real<S>) {
      using Wide = std::conditional_t<std::is_signed_v<S>, s64, u64>;
      D r;
      if constexpr (std::is_same_v<D, float>) {
        r = float_of(static_cast<Wide>(s), mode_of(m));
      } else if constexpr (std::is_same_v<D, double>) {
        r = double_of(static_cast<Wide>(s), mode_of(m));
      } else {
        // Rounded to odd when double cannot hold it, so that the second rounding is the only one that counts.
        double v = double_of(static_cast<Wide>(s), Round::Zero);
        if (static_cast<__int128>(v) != static_cast<__int128>(s))
          v = std::bit_cast<double>(std::bit_cast<u64>(v) | 1);
        r = D{static_cast<u16>(round_to(v, std::is_same_v<D, half> ? kHalf : kBf16, mode_of(m), false))};
      }
      if constexpr (std::is_floating_point_v<D>)
        if (m & kSat) r = r > 0 ? (r < 1 ? r : D{1}) : D{0};
      return r;
    } else {
      if constexpr (std::is_same_v<S, float>)
        if (m & kFtz) s = flush(s);
      double v = real_of(s);
      if (m & kIntegral) v = integral(v, mode_of(m));
      if (m & kSat) v = v > 0 ? (v < 1 ? v : 1.0) : 0.0;
      if ((m & kRelu) && v < 0) v = 0;
      if constexpr (std::is_same_v<D, double>) {
        return v;
      } else if constexpr (std::is_same_v<D, float>) {
        float f = std::is_same_v<S, double> ? float_of(v, m & kIntegral ? Round::Nearest : mode_of(m))
                                            : static_cast<float>(v);
        if (m & kFtz) f = flush(f);
        return canonical(f);
      } else {
        return D{static_cast<u16>(round_to(v, std::is_same_v<D, half> ? kHalf : kBf16,
                                           m & kIntegral ? Round::Nearest : mode_of(m), false))};
      }
    }
  }
}

template <class D, class S>
void convert(Warp& w, const Inst& in, u32 mask) {
  const Lane<S>* a = w.in<Lane<S>>(in.op[1]);
  const u8 m = in.sub;
  store_lanes<false>(w.reg<Lane<D>>(in.op[0]), mask,
                     [=](u32 l) { return put<D>(converted<D, S>(LaneOf<S>::get(a[l]), m)); });
}
template <class D, class S>
void convert_simple(Warp& w, const Inst& in, u32 mask) {
  const Lane<S>* a = w.in<Lane<S>>(in.op[1]);
  store_lanes<true>(w.reg<Lane<D>>(in.op[0]), mask, [=](u32 l) {
    S s = LaneOf<S>::get(a[l]);
    if constexpr (!is_real<D> && !is_real<S>)
      return put<D>(static_cast<D>(s));
    else if constexpr (std::is_same_v<D, half>)
      return put<D>(to_half(to_float(s)));
    else if constexpr (std::is_same_v<D, bf16>)
      return put<D>(to_bf16(to_float(s)));
    else if constexpr (is_small_float<S>)
      return put<D>(static_cast<D>(canonical(to_float(s))));
    else if constexpr (std::is_same_v<D, float>)
      return put<D>(canonical(static_cast<float>(s)));
    else
      return put<D>(static_cast<D>(s));
  });
}

template <class F>
bool with_type(Type t, F f) {
  switch (t) {
    case Type::U8:
    case Type::B8: f(u8{}); return true;
    case Type::S8: f(s8{}); return true;
    case Type::U16:
    case Type::B16: f(u16{}); return true;
    case Type::S16: f(s16{}); return true;
    case Type::U32:
    case Type::B32: f(u32{}); return true;
    case Type::S32: f(s32{}); return true;
    case Type::U64:
    case Type::B64: f(u64{}); return true;
    case Type::S64: f(s64{}); return true;
    case Type::F16: f(half{}); return true;
    case Type::BF16: f(bf16{}); return true;
    case Type::F32: f(float{}); return true;
    case Type::F64: f(double{}); return true;
    default: return false;
  }
}

const Format& format_of(Type t) {
  static const Format half_format = kHalf, bf16_format = kBf16, e4m3 = kE4m3, e5m2 = kE5m2, tf32 = kTf32;
  switch (t) {
    case Type::F16x2: return half_format;
    case Type::BF16x2: return bf16_format;
    case Type::E4M3x2: return e4m3;
    case Type::TF32: return tf32;
    default: return e5m2;
  }
}
bool is_fp8_pair(Type t) { return t == Type::E4M3x2 || t == Type::E5M2x2; }

// To and from packed pairs. imm says the formats.
void convert_pair(Decoder& d, Type to, Type from, u8 m) {
  d.inst.sub = m;
  bool saturate = d.has("satfinite") || is_fp8_pair(to);
  d.inst.imm = static_cast<s64>(to) | static_cast<s64>(from) << 8 | (saturate ? 1 << 16 : 0);
  if (from == Type::F32) {  // d, high, low
    d.operands(to, {Type::F32, Type::F32});
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u32 *hi = w.in<u32>(in.op[1]), *lo = w.in<u32>(in.op[2]);
      const Type to = static_cast<Type>(in.imm & 0xff);
      const Format& f = format_of(to);
      const bool saturate = in.imm >> 16 & 1;
      const u8 m = in.sub;
      u32* r = w.reg<u32>(in.op[0]);
      const bool plain = mode_of(m) == Round::Nearest && !(m & (kRelu | kFtz)) && !saturate;
      if (plain && to == Type::F16x2) {
        store_lanes<true>(r, mask, [=](u32 l) {
          return u32{to_half(std::bit_cast<float>(hi[l])).bits} << 16 |
                 to_half(std::bit_cast<float>(lo[l])).bits;
        });
      } else if (plain && to == Type::BF16x2) {
        store_lanes<true>(r, mask, [=](u32 l) {
          return u32{to_bf16(std::bit_cast<float>(hi[l])).bits} << 16 |
                 to_bf16(std::bit_cast<float>(lo[l])).bits;
        });
      } else {
        const int bits = 1 + f.exponent + f.mantissa;
        auto one = [&](u32 s) {
          double v = std::bit_cast<float>(s);
          if ((m & kRelu) && v < 0) v = 0;
          return round_to(v, f, mode_of(m), saturate);
        };
        store_lanes<false>(r, mask, [&](u32 l) { return one(hi[l]) << bits | one(lo[l]); });
      }
    };
    return;
  }
  d.operands(to, {from});
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    const u32* a = w.in<u32>(in.op[1]);
    const Format &to = format_of(static_cast<Type>(in.imm & 0xff)),
                 &from = format_of(static_cast<Type>(in.imm >> 8 & 0xff));
    const bool saturate = in.imm >> 16 & 1;
    const int to_bits = 1 + to.exponent + to.mantissa, from_bits = 1 + from.exponent + from.mantissa;
    const u8 m = in.sub;
    store_lanes<false>(w.reg<u32>(in.op[0]), mask, [&](u32 l) {
      auto one = [&](u32 s) {
        double v = value_of(s & ((1u << from_bits) - 1), from);
        if ((m & kRelu) && v < 0) v = 0;
        return round_to(v, to, mode_of(m), saturate);
      };
      return one(a[l] >> from_bits) << to_bits | one(a[l]);
    });
  };
}

// cvt.pack.sat: two integers become the low parts of the result, the rest comes from c.
void convert_pack(Decoder& d) {
  Type to = d.type(0);
  bool has_rest = d.operand_count() == 4;
  d.def(0, d.operand(0), Type::B32);
  d.use(1, d.operand(1), Type::S32);
  d.use(2, d.operand(2), Type::S32);
  if (has_rest) d.use(3, d.operand(3), Type::B32);
  d.inst.imm = static_cast<s64>(to);
  d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
    const s32 *a = w.in<s32>(in.op[1]), *b = w.in<s32>(in.op[2]);
    const u32* c = in.op[3] == kNone ? nullptr : w.in<u32>(in.op[3]);
    const Type to = static_cast<Type>(in.imm);
    auto one = [to](s32 v) -> u32 {
      switch (to) {
        case Type::U16: return saturated_integer<u16>(v);
        case Type::S16: return static_cast<u16>(saturated_integer<s16>(v));
        case Type::U8: return saturated_integer<u8>(v);
        default: return static_cast<u8>(saturated_integer<s8>(v));
      }
    };
    const u32 bits = size_of(to) * 8;
    store_lanes<false>(w.reg<u32>(in.op[0]), mask, [&](u32 l) {
      u32 pair = one(a[l]) << bits | one(b[l]);
      return c ? c[l] << (2 * bits) | pair : pair;
    });
  };
  if (to != Type::U16 && to != Type::S16 && to != Type::U8 && to != Type::S8) d.unsupported("type");
}

void cvt(Decoder& d) {
  if (d.has("pack")) return convert_pack(d);
  Type to = d.type(0), from = d.type(1);
  u8 m = 0;
  auto mode = [&](const char* name, Round r, bool whole) {
    if (d.has(name)) m = static_cast<u8>(static_cast<u8>(r) | (whole ? kIntegral : 0));
  };
  mode("rn", Round::Nearest, false), mode("rz", Round::Zero, false), mode("rm", Round::Down, false),
      mode("rp", Round::Up, false);
  mode("rna", Round::Away, false);
  mode("rni", Round::Nearest, true), mode("rzi", Round::Zero, true), mode("rmi", Round::Down, true),
      mode("rpi", Round::Up, true);
  m = static_cast<u8>(m | (d.has("ftz") ? kFtz : 0) | (d.has("sat") ? kSat : 0) |
                      (d.has("relu") ? kRelu : 0));
  if (d.has("rs")) d.unsupported("stochastic rounding");
  if (to == Type::F16x2 || to == Type::BF16x2 || is_fp8_pair(to) || is_fp8_pair(from)) {
    bool known = from == Type::F32 || from == Type::F16x2 || from == Type::BF16x2 || is_fp8_pair(from);
    if (!known || size_of(to) == 0) d.unsupported("type");
    return convert_pair(d, to, from, m);
  }
  if (to == Type::TF32) {
    d.operands(Type::B32, {Type::F32});
    d.inst.sub = m;
    d.inst.imm = d.has("satfinite");
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const u32* a = w.in<u32>(in.op[1]);
      store_lanes<false>(w.reg<u32>(in.op[0]), mask, [&](u32 l) {
        double v = std::bit_cast<float>(a[l]);
        if ((in.sub & kRelu) && v < 0) v = 0;
        u32 r = round_to(v, kTf32, mode_of(in.sub), in.imm);
        return v != v ? 0x7fffffffu : r << 13;
      });
    };
    return;
  }
  d.operands(to, {from});
  d.inst.sub = m;
  bool ok = with_type(to, [&]<class D>(D) {
    ok = with_type(from, [&]<class S>(S) {
      bool simple = m == 0;  // rounding to nearest, if at all
      constexpr bool direct = (!is_real<D> && !is_real<S>) ||
                              (std::is_floating_point_v<D> && sizeof(S) <= 8) ||
                              (is_small_float<D> && (std::is_same_v<S, float> || is_small_float<S>));
      if constexpr (direct) {
        if (simple) {
          d.inst.fn = convert_simple<D, S>;
          return;
        }
      }
      d.inst.fn = convert<D, S>;
    });
  });
  if (!ok || !d.inst.fn) d.unsupported("type");
}

}  // namespace

void register_convert(Rules& r) { r["cvt"] = cvt; }

}  // namespace vgpu::ptx
