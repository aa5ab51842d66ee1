#include <ostream>
#include <string>

#include <lockstep/dtype.hpp>
#include <lockstep/error.hpp>

#include "ascii.hpp"
#include "detail/expects.hpp"

namespace lockstep {
namespace {

struct Alias {
  std::string_view text;
  DType dtype;
};

// Names of the types in C++, numpy, safetensors and the collective benchmarks. The first kNumDTypes are those
// of name(), in the order of DType.
constexpr Alias kAliases[] = {
    {"float16", DType::f16},
    {"bfloat16", DType::bf16},
    {"float32", DType::f32},
    {"float64", DType::f64},
    {"int8", DType::i8},
    {"int16", DType::i16},
    {"int32", DType::i32},
    {"int64", DType::i64},
    {"uint8", DType::u8},
    {"uint16", DType::u16},
    {"uint32", DType::u32},
    {"uint64", DType::u64},
    {"bool", DType::boolean},
    {"float8_e4m3", DType::f8e4m3},
    {"float8_e5m2", DType::f8e5m2},
    {"f16", DType::f16},
    {"half", DType::f16},
    {"bf16", DType::bf16},
    {"f32", DType::f32},
    {"float", DType::f32},
    {"f64", DType::f64},
    {"double", DType::f64},
    {"i8", DType::i8},
    {"i16", DType::i16},
    {"i32", DType::i32},
    {"i64", DType::i64},
    {"u8", DType::u8},
    {"u16", DType::u16},
    {"u32", DType::u32},
    {"u64", DType::u64},
    {"boolean", DType::boolean},
    {"f8e4m3", DType::f8e4m3},
    {"f8e5m2", DType::f8e5m2},
    {"f8_e4m3", DType::f8e4m3},
    {"f8_e5m2", DType::f8e5m2},
    {"float8_e4m3fn", DType::f8e4m3},
};

static_assert([] {
  for (int i = 0; i < kNumDTypes; ++i)
    if (kAliases[i].dtype != static_cast<DType>(i)) return false;
  return true;
}());

}  // namespace

std::size_t size_of(DType dtype) {
  return dispatch(dtype, []<class T>() { return sizeof(T); });
}

std::string_view name(DType dtype) { return kAliases[static_cast<std::size_t>(dtype)].text; }

DType parse_dtype(std::string_view text) {
  for (const Alias& alias : kAliases) {
    if (equals_ignoring_case(text, alias.text)) return alias.dtype;
  }
  std::string known;
  for (int i = 0; i < kNumDTypes; ++i) known.append(i > 0 ? ", " : "").append(kAliases[i].text);
  LOCKSTEP_EXPECTS(false, InvalidArgument, "parse_dtype: '", text, "' is not a dtype. Known are ", known,
                   " and short forms such as f32, half or i64.");
  return {};
}

bool is_floating(DType dtype) { return !is_integer(dtype) && !is_boolean(dtype); }

bool is_integer(DType dtype) { return dtype >= DType::i8 && dtype <= DType::u64; }

bool is_signed_integer(DType dtype) { return dtype >= DType::i8 && dtype <= DType::i64; }

bool is_boolean(DType dtype) { return dtype == DType::boolean; }

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

DType accumulator_dtype(DType dtype) {
  return dispatch(dtype, []<class T>() { return dtype_of<accumulator_t<T>>; });
}

}  // namespace lockstep
