#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::says;
using optim::SGD;

// Powers of two throughout, so that every step is exact.
TEMPLATE_LIST_TEST_CASE("SGD steps down the gradient", "[optim][sgd]", test::WideFloatingTypes) {
  using T = TestType;
  Variable w(Tensor::from<T>({4, 8}, {2}));
  SGD optimizer({.learning_rate = 0.5});
  optimizer.apply_gradients({{Tensor::from<T>({2, -4}, {2}), w}});
  REQUIRE(w.value().to_vector<T>() == std::vector<T>{3, 10});
  optimizer.apply_gradients({{Tensor::from<T>({2, -4}, {2}), w}});
  REQUIRE(w.value().to_vector<T>() == std::vector<T>{2, 12});
  REQUIRE(optimizer.variables().size() == 1);
}

TEST_CASE("SGD's weight decay is part of the gradient", "[optim][sgd]") {
  Variable w(Tensor::scalar(4.0));
  SGD({.learning_rate = 0.5, .weight_decay = 0.25}).apply_gradients({{Tensor::scalar(2.0), w}});
  REQUIRE(w.value().item<double>() == 4 - 0.5 * (2 + 0.25 * 4));
}

TEST_CASE("SGD updates half precision", "[optim][sgd]") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Variable w(Tensor::scalar(4.0f).cast(dtype));
    SGD({.learning_rate = 0.5}).apply_gradients({{Tensor::scalar(2.0f).cast(dtype), w}});
    REQUIRE(w.value().cast(DType::f32).item<float>() == 3);
  }
}

TEST_CASE("SGD refuses options out of their ranges", "[optim][sgd]") {
  REQUIRE_THROWS_MATCHES(SGD({.learning_rate = -1}), InvalidArgument, says("LearningRate: the rate is -1"));
  REQUIRE_THROWS_MATCHES(SGD({.weight_decay = -1}), InvalidArgument, says("SGD: weight_decay is -1"));
  REQUIRE_THROWS_MATCHES(SGD({.global_clip_norm = std::numeric_limits<double>::quiet_NaN()}), InvalidArgument,
                         says("SGD: global_clip_norm is nan"));
}
