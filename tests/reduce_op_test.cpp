#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/error.hpp>
#include <lockstep/reduce_op.hpp>

using namespace lockstep;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const std::vector<std::pair<ReduceOp, std::string_view>> kOps = {{ReduceOp::sum, "sum"},
                                                                 {ReduceOp::mean, "mean"},
                                                                 {ReduceOp::min, "min"},
                                                                 {ReduceOp::max, "max"},
                                                                 {ReduceOp::product, "product"}};

}  // namespace

TEST_CASE("operators have names, which parse without regard to case", "[reduce_op][host]") {
  for (const auto& [op, text] : kOps) {
    CHECK(name(op) == text);
    CHECK(parse_reduce_op(text) == op);
    std::ostringstream out;
    out << op;
    CHECK(out.str() == text);
  }
  CHECK(parse_reduce_op("SUM") == ReduceOp::sum);
  CHECK(parse_reduce_op("Mean") == ReduceOp::mean);
  CHECK(parse_reduce_op("pRODUCT") == ReduceOp::product);
}

TEST_CASE("an unknown operator is refused and the known ones are listed", "[reduce_op][host]") {
  for (const char* text : {"", "su", "sums", "sum ", "ReduceOp.SUM", "median"}) {
    CHECK_THROWS_MATCHES(parse_reduce_op(text), InvalidArgument,
                         MessageMatches(ContainsSubstring("'" + std::string(text) + "'") &&
                                        ContainsSubstring("sum, mean, min, max and product")));
  }
}

TEST_CASE("P04 the mean of integers is a true division, in a type that holds it", "[reduce_op][host]") {
  const std::vector<std::pair<DType, DType>> means = {
      {DType::f16, DType::f16}, {DType::bf16, DType::bf16},     {DType::f32, DType::f32},
      {DType::f64, DType::f64}, {DType::f8e4m3, DType::f8e4m3}, {DType::f8e5m2, DType::f8e5m2},
      {DType::i8, DType::f32},  {DType::i16, DType::f32},       {DType::u8, DType::f32},
      {DType::u16, DType::f32}, {DType::i32, DType::f64},       {DType::i64, DType::f64},
      {DType::u32, DType::f64}, {DType::u64, DType::f64}};
  REQUIRE(means.size() == kNumDTypes - 1);
  for (const auto& [dtype, mean] : means) {
    INFO(dtype);
    CHECK(reduced_dtype(ReduceOp::mean, dtype) == mean);
    for (const auto& [op, text] : kOps) {
      if (op != ReduceOp::mean) CHECK(reduced_dtype(op, dtype) == dtype);
    }
  }
}

TEST_CASE("P07 no operator is defined on booleans", "[reduce_op][host]") {
  for (const auto& [op, text] : kOps) {
    CHECK_THROWS_MATCHES(reduced_dtype(op, DType::boolean), InvalidArgument,
                         MessageMatches(ContainsSubstring(std::string(text) + ": not defined on bool")));
  }
}
