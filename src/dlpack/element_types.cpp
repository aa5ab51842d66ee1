#include "dlpack/element_types.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::dlpack {
namespace {

// DLDataTypeCode.
enum Code : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4M3FN = 10,
  kFloat8E5M2 = 12
};
constexpr std::array<std::string_view, 18> kNames = {"int",
                                                     "uint",
                                                     "float",
                                                     "opaque handle",
                                                     "bfloat",
                                                     "complex",
                                                     "bool",
                                                     "float8_e3m4",
                                                     "float8_e4m3",
                                                     "float8_e4m3b11fnuz",
                                                     "float8_e4m3fn",
                                                     "float8_e4m3fnuz",
                                                     "float8_e5m2",
                                                     "float8_e5m2fnuz",
                                                     "float8_e8m0fnu",
                                                     "float6_e2m3fn",
                                                     "float6_e3m2fn",
                                                     "float4_e2m1fn"};

// By DType.
constexpr std::array<Code, kNumDTypes> kCodes = {kFloat, kBfloat, kFloat, kFloat,        kInt,
                                                 kInt,   kInt,    kInt,   kUInt,         kUInt,
                                                 kUInt,  kUInt,   kBool,  kFloat8E4M3FN, kFloat8E5M2};

std::string describe(const DLDataType& type) {
  using lockstep::detail::concat;
  const std::string name = type.code < kNames.size() ? std::string(kNames[type.code])
                                                     : concat("of code ", static_cast<int>(type.code));
  return concat("type ", name, " with ", static_cast<int>(type.bits), " bits and ", type.lanes, " lanes");
}

std::string_view remedy(const DLDataType& type) {
  if (type.lanes != 1) return "Pass the lanes as a last axis.";
  if (type.code == kComplex) return "Pass real and imaginary parts as a last axis of extent 2.";
  return "Convert them in the library that they come from.";
}

}  // namespace

DLDataType to_element_type(DType dtype) {
  return {kCodes[static_cast<std::size_t>(dtype)], static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

DType to_dtype(const DLDataType& type) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DLDataType each = to_element_type(static_cast<DType>(i));
    if (type.code == each.code && type.bits == each.bits && type.lanes == each.lanes)
      return static_cast<DType>(i);
  }
  LOCKSTEP_EXPECTS(false, Unsupported, "dlpack::from: no dtype has elements of ", describe(type), ". ",
                   remedy(type));
  return {};
}

}  // namespace lockstep::dlpack
