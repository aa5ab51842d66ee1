#include "arithmetic/dispatch_operator.hpp"

#include <catch2/catch_test_macros.hpp>

namespace lockstep::arithmetic {

TEST_CASE("each reduction has its operator, and a mean the sum's", "[arithmetic][host]") {
  const auto combined = [](ReduceOp op) {
    int result = 0;
    dispatch_operator(op, [&]<class Op>() { result = Op::apply(3, 5); });
    return result;
  };
  CHECK(combined(ReduceOp::sum) == 8);
  CHECK(combined(ReduceOp::mean) == 8);
  CHECK(combined(ReduceOp::product) == 15);
  CHECK(combined(ReduceOp::min) == 3);
  CHECK(combined(ReduceOp::max) == 5);
}

}  // namespace lockstep::arithmetic
