// Arithmetic on f32 and f64.
#include "exec/decode.hpp"
#include "exec/lanes.hpp"

namespace vgpu::ptx {

namespace {

// Modifiers, as handlers with modifiers get them in Inst::imm.
constexpr s64 kFtz = 8, kSat = 16, kPropagateNaN = 32, kXorSign = 64, kAbs = 128;

Round rounding(const Decoder& d) {
  return d.has("rz") ? Round::Zero : d.has("rm") ? Round::Down : d.has("rp") ? Round::Up : Round::Nearest;
}
s64 modifiers(const Decoder& d) {
  return static_cast<s64>(rounding(d)) | (d.has("ftz") ? kFtz : 0) | (d.has("sat") ? kSat : 0) |
         (d.has("NaN") ? kPropagateNaN : 0) | (d.has("xorsign") ? kXorSign : 0) | (d.has("abs") ? kAbs : 0);
}
Round mode_of(s64 m) { return static_cast<Round>(m & 7); }
template <class T>
T saturated(T x) {
  return x > 0 ? (x < 1 ? x : T{1}) : T{0};  // NaN gives 0
}
template <class T>
T finished(T x, s64 m) {
  if (m & kFtz) x = flush(x);
  if (m & kSat) x = saturated(x);
  return canonical(x);
}
template <class T>
T before(T x, s64 m) {
  return m & kFtz ? flush(x) : x;
}

template <class T>
T smaller(T a, T b) {
  T equal = std::signbit(a) ? a : b;
  T number = a < b ? a : b < a ? b : equal;
  T other = a != a ? b : a;
  return a == a && b == b ? number : canonical(other);
}
template <class T>
T larger(T a, T b) {
  T equal = std::signbit(a) ? b : a;
  T number = a > b ? a : b > a ? b : equal;
  T other = a != a ? b : a;
  return a == a && b == b ? number : canonical(other);
}

template <class T>
void arithmetic(Decoder& d, Type t) {
  std::string_view op = d.opcode();
  s64 m = modifiers(d);
  d.inst.imm = m;
  if (op == "add" || op == "sub" || op == "mul" || op == "div") {
    d.operands(t, {t, t});
    if (m == 0) {
      d.inst.fn = op == "add"   ? binary<T, T, T>([](T a, T b) { return canonical(a + b); })
                  : op == "sub" ? binary<T, T, T>([](T a, T b) { return canonical(a - b); })
                  : op == "mul" ? binary<T, T, T>([](T a, T b) { return canonical(a * b); })
                                : binary<T, T, T>([](T a, T b) { return canonical(a / b); });
      return;
    }
    if (m == kFtz) {
      d.inst.fn =
          op == "add"   ? binary<T, T, T>([](T a, T b) { return flush(canonical(flush(a) + flush(b))); })
          : op == "sub" ? binary<T, T, T>([](T a, T b) { return flush(canonical(flush(a) - flush(b))); })
          : op == "mul" ? binary<T, T, T>([](T a, T b) { return flush(canonical(flush(a) * flush(b))); })
                        : binary<T, T, T>([](T a, T b) { return flush(canonical(flush(a) / flush(b))); });
      return;
    }
    d.inst.fn = op == "add"   ? binary_with<T, T, T, false>([](T a, T b, s64 m) {
      return finished(add_round(before(a, m), before(b, m), mode_of(m)), m);
    })
                : op == "sub" ? binary_with<T, T, T, false>([](T a, T b, s64 m) {
                    return finished(add_round(before(a, m), -before(b, m), mode_of(m)), m);
                  })
                : op == "mul" ? binary_with<T, T, T, false>([](T a, T b, s64 m) {
                    return finished(mul_round(before(a, m), before(b, m), mode_of(m)), m);
                  })
                              : binary_with<T, T, T, false>([](T a, T b, s64 m) {
                                  return finished(div_round(before(a, m), before(b, m), mode_of(m)), m);
                                });
    return;
  }
  if (op == "fma" || op == "mad") {
    d.operands(t, {t, t, t});
    if (m == 0) {
      d.inst.fn = ternary<T, T, T, T>([](T a, T b, T c) { return canonical(std::fma(a, b, c)); });
      return;
    }
    if (m == kFtz) {
      d.inst.fn = ternary<T, T, T, T>(
          [](T a, T b, T c) { return flush(canonical(std::fma(flush(a), flush(b), flush(c)))); });
      return;
    }
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const Lane<T>*a = w.in<Lane<T>>(in.op[1]), *b = w.in<Lane<T>>(in.op[2]), *c = w.in<Lane<T>>(in.op[3]);
      const s64 m = in.imm;
      store_lanes<false>(w.reg<Lane<T>>(in.op[0]), mask, [=](u32 l) {
        auto get = [m](Lane<T> s) { return before(LaneOf<T>::get(s), m); };
        return LaneOf<T>::put(finished(fma_round(get(a[l]), get(b[l]), get(c[l]), mode_of(m)), m));
      });
    };
    return;
  }
  if (op == "abs" || op == "neg") {
    d.operands(t, {t});
    bool ftz = m & kFtz;
    if (op == "abs")
      d.inst.fn = ftz ? unary<T, T>([](T a) { return std::fabs(flush(a)); })
                      : unary<T, T>([](T a) { return std::fabs(a); });
    else
      d.inst.fn = ftz ? unary<T, T>([](T a) { return -flush(a); }) : unary<T, T>([](T a) { return -a; });
    return;
  }
  if (op == "min" || op == "max") {
    d.operands(t, {t, t});
    bool is_min = op == "min";
    if (m == 0) {
      d.inst.fn = is_min ? binary<T, T, T>([](T a, T b) { return smaller(a, b); })
                         : binary<T, T, T>([](T a, T b) { return larger(a, b); });
      return;
    }
    static constexpr auto full = [](T a, T b, s64 m, bool min) {
      a = before(a, m), b = before(b, m);
      if ((m & kPropagateNaN) && (a != a || b != b)) return canonical(std::numeric_limits<T>::quiet_NaN());
      bool negative = std::signbit(a) != std::signbit(b);
      if (m & kAbs) a = std::fabs(a), b = std::fabs(b);
      T r = min ? smaller(a, b) : larger(a, b);
      return m & kXorSign ? std::copysign(r, negative ? T{-1} : T{1}) : r;
    };
    d.inst.fn = is_min ? binary_with<T, T, T>([](T a, T b, s64 m) { return full(a, b, m, true); })
                       : binary_with<T, T, T>([](T a, T b, s64 m) { return full(a, b, m, false); });
    return;
  }
  d.unsupported();
}

// One operand, with the modifiers.
template <class T, class F>
Handler function(F) {
  return [](Warp& w, const Inst& in, u32 mask) {
    const Lane<T>* a = w.in<Lane<T>>(in.op[1]);
    const s64 m = in.imm;
    store_lanes<false>(w.reg<Lane<T>>(in.op[0]), mask, [=](u32 l) {
      return LaneOf<T>::put(finished(static_cast<T>(F{}(before(LaneOf<T>::get(a[l]), m), m)), m));
    });
  };
}

double low_word_cleared(double x) {
  return std::bit_cast<double>(std::bit_cast<u64>(x) & 0xffffffff'00000000ull);
}
double flush64(double x) {
  u64 b = std::bit_cast<u64>(x);
  return (b & 0x7ff0'0000'0000'0000ull) == 0 ? std::bit_cast<double>(b & 1ull << 63) : x;
}

void elementary(Decoder& d) {
  Type t = d.type();
  std::string_view op = d.opcode();
  if (t != Type::F32 && t != Type::F64) {
    if (!decode_half_arithmetic(d)) d.unsupported("type");
    return;
  }
  d.operands(t, {t});
  d.inst.imm = modifiers(d);
  bool approximate = d.has("approx");
  if (t == Type::F64) {
    if (op == "rcp" && approximate)
      d.inst.fn = function<double>([](double a, s64) { return low_word_cleared(flush64(1 / flush64(a))); });
    else if (op == "rsqrt" && d.has("ftz"))
      d.inst.fn = function<double>(
          [](double a, s64) { return low_word_cleared(flush64(1 / std::sqrt(flush64(a)))); });
    else if (op == "rcp")
      d.inst.fn = function<double>([](double a, s64 m) { return div_round(1.0, a, mode_of(m)); });
    else if (op == "sqrt")
      d.inst.fn = function<double>([](double a, s64 m) { return sqrt_round(a, mode_of(m)); });
    else if (op == "rsqrt")
      d.inst.fn = function<double>([](double a, s64) { return 1 / std::sqrt(a); });
    else
      d.unsupported();
    return;
  }
  // Approximations are computed in double and rounded: closer than hardware, and within its documented
  // errors.
  if (op == "rcp")
    d.inst.fn = function<float>([](float a, s64 m) { return div_round(1.0f, a, mode_of(m)); });
  else if (op == "sqrt")
    d.inst.fn = function<float>([](float a, s64 m) { return sqrt_round(a, mode_of(m)); });
  else if (op == "rsqrt")
    d.inst.fn = function<float>(
        [](float a, s64) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); });
  else if (op == "ex2")
    d.inst.fn =
        function<float>([](float a, s64) { return static_cast<float>(std::exp2(static_cast<double>(a))); });
  else if (op == "lg2")
    d.inst.fn =
        function<float>([](float a, s64) { return static_cast<float>(std::log2(static_cast<double>(a))); });
  else if (op == "sin")
    d.inst.fn =
        function<float>([](float a, s64) { return static_cast<float>(std::sin(static_cast<double>(a))); });
  else if (op == "cos")
    d.inst.fn =
        function<float>([](float a, s64) { return static_cast<float>(std::cos(static_cast<double>(a))); });
  else if (op == "tanh")
    d.inst.fn =
        function<float>([](float a, s64) { return static_cast<float>(std::tanh(static_cast<double>(a))); });
  else
    d.unsupported();
}

void fused(Decoder& d) {
  if (!decode_float_arithmetic(d)) d.unsupported("type");
}

void copysign(Decoder& d) {
  Type t = d.type();
  d.operands(t, {t, t});
  if (t == Type::F64)
    d.inst.fn = binary<double, double, double>([](double a, double b) { return std::copysign(b, a); });
  else
    d.inst.fn = binary<float, float, float>([](float a, float b) { return std::copysign(b, a); });
}

void testp(Decoder& d) {
  Type t = d.type();
  d.def_predicate(0, d.operand(0));
  d.use(1, d.operand(1), t);
  static constexpr const char* tests[] = {"finite",     "infinite", "number",
                                          "notanumber", "normal",   "subnormal"};
  d.inst.sub = 255;
  for (u8 i = 0; i < 6; ++i)
    if (d.has(tests[i])) d.inst.sub = i;
  if (d.inst.sub == 255) d.unsupported("test");
  auto make = [&]<class T>(T) {
    d.inst.fn = [](Warp& w, const Inst& in, u32 mask) {
      const Lane<T>* a = w.in<Lane<T>>(in.op[1]);
      u32 r = 0;
      each_lane(mask, [&](int l) {
        int c = std::fpclassify(LaneOf<T>::get(a[l]));
        bool holds[] = {c != FP_NAN && c != FP_INFINITE,
                        c == FP_INFINITE,
                        c != FP_NAN,
                        c == FP_NAN,
                        c == FP_NORMAL,
                        c == FP_SUBNORMAL};
        r |= holds[in.sub] ? 1u << l : 0;
      });
      w.set_pred(in.op[0], mask, r);
    };
  };
  if (t == Type::F64)
    make(double{});
  else if (t == Type::F32)
    make(float{});
  else
    d.unsupported("type");
}

}  // namespace

bool decode_float_arithmetic(Decoder& d) {
  switch (d.type()) {
    case Type::F32: arithmetic<float>(d, Type::F32); return true;
    case Type::F64: arithmetic<double>(d, Type::F64); return true;
    case Type::F16:
    case Type::F16x2:
    case Type::BF16:
    case Type::BF16x2: return decode_half_arithmetic(d);
    default: return false;
  }
}

void register_float(Rules& r) {
  r["fma"] = fused;
  for (const char* op : {"rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"}) r[op] = elementary;
  r["copysign"] = copysign;
  r["testp"] = testp;
}

}  // namespace vgpu::ptx
