#pragma once

#include <array>
#include <cstdint>
#include <tuple>

#include <lockstep/dtype.hpp>

/// Host types for TEMPLATE_LIST_TEST_CASE, and DTypes for GENERATE.
namespace lockstep::test {

using FloatingTypes = std::tuple<f16, bf16, float, double, f8e4m3, f8e5m2>;
using WideFloatingTypes = std::tuple<float, double>;
using IntegerTypes = std::tuple<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                                std::uint16_t, std::uint32_t, std::uint64_t>;
using SignedIntegerTypes = std::tuple<std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
using NumericTypes = decltype(std::tuple_cat(FloatingTypes(), IntegerTypes()));
using AllTypes = decltype(std::tuple_cat(NumericTypes(), std::tuple<bool>()));

inline constexpr std::array<DType, kNumDTypes> kAllDTypes = {
    DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8,      DType::i16,    DType::i32,   DType::i64,
    DType::u8,  DType::u16,  DType::u32, DType::u64, DType::boolean, DType::f8e4m3, DType::f8e5m2};

}  // namespace lockstep::test
