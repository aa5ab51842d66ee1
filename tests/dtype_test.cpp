#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/dtype.hpp>
#include <lockstep/error.hpp>

using namespace lockstep;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

// Every dtype with all that is known of it, written out.
struct Row {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
  bool floating, integer, signed_integer;
  DType accumulator;
  std::vector<std::string_view> aliases;
};

const std::vector<Row> kRows = {
    {DType::f16, "float16", 2, true, false, false, DType::f32, {"f16", "half"}},
    {DType::bf16, "bfloat16", 2, true, false, false, DType::f32, {"bf16"}},
    {DType::f32, "float32", 4, true, false, false, DType::f32, {"f32", "float"}},
    {DType::f64, "float64", 8, true, false, false, DType::f64, {"f64", "double"}},
    {DType::i8, "int8", 1, false, true, true, DType::i64, {"i8"}},
    {DType::i16, "int16", 2, false, true, true, DType::i64, {"i16"}},
    {DType::i32, "int32", 4, false, true, true, DType::i64, {"i32"}},
    {DType::i64, "int64", 8, false, true, true, DType::i64, {"i64"}},
    {DType::u8, "uint8", 1, false, true, false, DType::u64, {"u8"}},
    {DType::u16, "uint16", 2, false, true, false, DType::u64, {"u16"}},
    {DType::u32, "uint32", 4, false, true, false, DType::u64, {"u32"}},
    {DType::u64, "uint64", 8, false, true, false, DType::u64, {"u64"}},
    {DType::boolean, "bool", 1, false, false, false, DType::u64, {"boolean"}},
    {DType::f8e4m3, "float8_e4m3", 1, true, false, false, DType::f32, {"f8e4m3", "F8_E4M3", "float8_e4m3fn"}},
    {DType::f8e5m2, "float8_e5m2", 1, true, false, false, DType::f32, {"f8e5m2", "F8_E5M2"}},
};

}  // namespace

TEST_CASE("the table of dtypes holds entry by entry", "[dtype][host]") {
  REQUIRE(kRows.size() == kNumDTypes);
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const Row& row = kRows[i];
    INFO(row.name);
    CHECK(static_cast<std::size_t>(row.dtype) == i);
    CHECK(name(row.dtype) == row.name);
    CHECK(size_of(row.dtype) == row.bytes);
    CHECK(is_floating(row.dtype) == row.floating);
    CHECK(is_integer(row.dtype) == row.integer);
    CHECK(is_signed_integer(row.dtype) == row.signed_integer);
    CHECK(is_boolean(row.dtype) == (row.dtype == DType::boolean));
    CHECK(accumulator_dtype(row.dtype) == row.accumulator);
  }
}

TEST_CASE("dtype names parse without regard to case", "[dtype][host]") {
  for (const Row& row : kRows) {
    INFO(row.name);
    CHECK(parse_dtype(row.name) == row.dtype);
    for (const std::string_view alias : row.aliases) CHECK(parse_dtype(alias) == row.dtype);
  }
  CHECK(parse_dtype("FLOAT32") == DType::f32);
  CHECK(parse_dtype("BFloat16") == DType::bf16);
  CHECK(parse_dtype("Bool") == DType::boolean);
}

TEST_CASE("an unknown dtype name is refused and the known ones are listed", "[dtype][host]") {
  for (const char* text : {"", "float128", "f3", "float32 ", "int", "complex64"}) {
    CHECK_THROWS_MATCHES(
        parse_dtype(text), InvalidArgument,
        MessageMatches(ContainsSubstring("'" + std::string(text) + "'") &&
                       ContainsSubstring("float16, bfloat16, float32") && ContainsSubstring("float8_e5m2")));
  }
}

TEST_CASE("dtypes print by name", "[dtype][host]") {
  std::ostringstream out;
  out << DType::bf16 << ' ' << DType::boolean;
  CHECK(out.str() == "bfloat16 bool");
}

TEST_CASE("host types have their dtype, and dispatch finds them", "[dtype][host]") {
  STATIC_CHECK(dtype_of<float> == DType::f32);
  STATIC_CHECK(dtype_of<const double> == DType::f64);
  STATIC_CHECK(dtype_of<long> == DType::i64);
  STATIC_CHECK(dtype_of<long long> == DType::i64);
  STATIC_CHECK(dtype_of<unsigned long long> == DType::u64);
  STATIC_CHECK(dtype_of<unsigned char> == DType::u8);
  STATIC_CHECK(dtype_of<bool> == DType::boolean);
  STATIC_CHECK(Element<f8e4m3>);
  STATIC_CHECK_FALSE(Element<long double>);
  STATIC_CHECK_FALSE(Element<void*>);
  for (const Row& row : kRows) {
    dispatch(row.dtype, [&]<class T>() {
      INFO(row.name);
      CHECK(dtype_of<T> == row.dtype);
      CHECK(sizeof(T) == row.bytes);
      CHECK(dtype_of<accumulator_t<T>> == row.accumulator);
    });
  }
}
