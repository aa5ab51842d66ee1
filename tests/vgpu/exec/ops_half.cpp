// Arithmetic on f16 and bf16, single and packed in pairs.
#include "exec/decode.hpp"
#include "exec/lanes.hpp"

namespace vgpu::ptx {

namespace {

constexpr s64 kFtz = 1, kSat = 2, kRelu = 4, kPropagateNaN = 8, kXorSign = 16;

template <class H>
H rounded(double exact_or_odd) {
  float f = float_odd(exact_or_odd);
  if constexpr (std::is_same_v<H, half>)
    return to_half(f);
  else
    return to_bf16(f);
}
template <class H>
H rounded(float f) {
  if constexpr (std::is_same_v<H, half>)
    return to_half(f);
  else
    return to_bf16(f);
}
constexpr u16 kNaN = 0x7fff;
template <class H>
bool is_nan(H h) {
  constexpr u16 infinity = std::is_same_v<H, half> ? 0x7c00 : 0x7f80;
  return (h.bits & 0x7fff) > infinity;
}
template <class H>
H flushed(H h) {
  constexpr u16 exponent = std::is_same_v<H, half> ? 0x7c00 : 0x7f80;
  return (h.bits & exponent) ? h : H{static_cast<u16>(h.bits & 0x8000)};
}
template <class H>
H finished(H h, s64 m) {
  if (m == 0) return h;
  if (m & kFtz) h = flushed(h);
  if (m & kSat) {
    float f = to_float(h);
    h = rounded<H>(f > 0 ? (f < 1 ? f : 1.0f) : 0.0f);
  }
  if ((m & kRelu) && !is_nan(h) && (h.bits & 0x8000)) h = H{0};
  return h;
}

// Handlers over one value or over the two halves of a word; f takes and gives H, with the modifiers.
template <class H, unsigned kOperands, class F>
Handler lanes_of(bool packed, F) {
  if (packed)
    return [](Warp& w, const Inst& in, u32 mask) {
      const u32* x[3];
      for (unsigned i = 0; i < kOperands; ++i) x[i] = w.in<u32>(in.op[i + 1]);
      const s64 m = in.imm;
      store_lanes<true>(w.reg<u32>(in.op[0]), mask, [=](u32 l) {
        auto part = [&](unsigned shift) -> u32 {
          auto at = [&](unsigned i) { return H{static_cast<u16>(x[i][l] >> shift)}; };
          if constexpr (kOperands == 1)
            return F{}(at(0), m).bits;
          else if constexpr (kOperands == 2)
            return F{}(at(0), at(1), m).bits;
          else
            return F{}(at(0), at(1), at(2), m).bits;
        };
        return part(0) | part(16) << 16;
      });
    };
  return [](Warp& w, const Inst& in, u32 mask) {
    const u32* x[3];
    for (unsigned i = 0; i < kOperands; ++i) x[i] = w.in<u32>(in.op[i + 1]);
    const s64 m = in.imm;
    store_lanes<true>(w.reg<u32>(in.op[0]), mask, [=](u32 l) -> u32 {
      auto at = [&](unsigned i) { return H{static_cast<u16>(x[i][l])}; };
      if constexpr (kOperands == 1)
        return F{}(at(0), m).bits;
      else if constexpr (kOperands == 2)
        return F{}(at(0), at(1), m).bits;
      else
        return F{}(at(0), at(1), at(2), m).bits;
    });
  };
}

template <class H>
H extreme(H a, H b, s64 m, bool min) {
  if (m & kFtz) a = flushed(a), b = flushed(b);
  bool na = is_nan(a), nb = is_nan(b);
  u16 sign = 0;
  if (m & kXorSign) {
    sign = (a.bits ^ b.bits) & 0x8000;
    a.bits &= 0x7fff, b.bits &= 0x7fff;
  }
  // Signed-magnitude bits to an order-preserving integer.
  auto key = [](H h) {
    return h.bits & 0x8000 ? -static_cast<s32>(h.bits & 0x7fff) - 1 : static_cast<s32>(h.bits);
  };
  s32 ka = key(a), kb = key(b);
  H r = min == (ka < kb) ? a : b;
  if (na && nb) return H{kNaN};
  if (na || nb) {
    if (m & kPropagateNaN) return H{kNaN};
    r = na ? b : a;
  }
  r.bits |= sign;
  return r;
}

template <class H>
void arithmetic(Decoder& d, Type t, bool packed) {
  std::string_view op = d.opcode();
  d.inst.imm = (d.has("ftz") ? kFtz : 0) | (d.has("sat") ? kSat : 0) | (d.has("relu") ? kRelu : 0) |
               (d.has("NaN") ? kPropagateNaN : 0) | (d.has("xorsign") ? kXorSign : 0);
  if (op == "add") {
    d.operands(t, {t, t});
    d.inst.fn = lanes_of<H, 2>(
        packed, [](H a, H b, s64 m) { return finished(rounded<H>(to_float(a) + to_float(b)), m); });
  } else if (op == "sub") {
    d.operands(t, {t, t});
    d.inst.fn = lanes_of<H, 2>(
        packed, [](H a, H b, s64 m) { return finished(rounded<H>(to_float(a) - to_float(b)), m); });
  } else if (op == "mul") {
    d.operands(t, {t, t});
    // The product of two f16 is exact in float; that of two bf16 only when it is no subnormal.
    d.inst.fn = lanes_of<H, 2>(packed, [](H a, H b, s64 m) {
      if constexpr (std::is_same_v<H, half>)
        return finished(rounded<H>(to_float(a) * to_float(b)), m);
      else
        return finished(rounded<H>(to_double(a) * to_double(b)), m);
    });
  } else if (op == "fma" || op == "mad") {
    d.operands(t, {t, t, t});
    d.inst.fn = lanes_of<H, 3>(packed, [](H a, H b, H c, s64 m) {
      return finished(rounded<H>(add_odd(to_double(a) * to_double(b), to_double(c))), m);
    });
  } else if (op == "abs") {
    d.operands(t, {t});
    d.inst.fn =
        lanes_of<H, 1>(packed, [](H a, s64 m) { return finished(H{static_cast<u16>(a.bits & 0x7fff)}, m); });
  } else if (op == "neg") {
    d.operands(t, {t});
    d.inst.fn =
        lanes_of<H, 1>(packed, [](H a, s64 m) { return finished(H{static_cast<u16>(a.bits ^ 0x8000)}, m); });
  } else if (op == "min") {
    d.operands(t, {t, t});
    d.inst.fn = lanes_of<H, 2>(packed, [](H a, H b, s64 m) { return extreme(a, b, m, true); });
  } else if (op == "max") {
    d.operands(t, {t, t});
    d.inst.fn = lanes_of<H, 2>(packed, [](H a, H b, s64 m) { return extreme(a, b, m, false); });
  } else if (op == "ex2") {
    d.operands(t, {t});
    d.inst.fn =
        lanes_of<H, 1>(packed, [](H a, s64 m) { return finished(rounded<H>(std::exp2(to_double(a))), m); });
  } else if (op == "tanh") {
    d.operands(t, {t});
    d.inst.fn =
        lanes_of<H, 1>(packed, [](H a, s64 m) { return finished(rounded<H>(std::tanh(to_double(a))), m); });
  } else {
    d.unsupported();
  }
}

}  // namespace

bool decode_half_arithmetic(Decoder& d) {
  Type t = d.type();
  switch (t) {
    case Type::F16: arithmetic<half>(d, t, false); return true;
    case Type::F16x2: arithmetic<half>(d, t, true); return true;
    case Type::BF16: arithmetic<bf16>(d, t, false); return true;
    case Type::BF16x2: arithmetic<bf16>(d, t, true); return true;
    default: return false;
  }
}

}  // namespace vgpu::ptx
