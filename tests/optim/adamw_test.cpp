#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/scalar_optimizer.hpp"

using namespace lockstep;
using Catch::Matchers::WithinRel;
using lockstep::test::says;
using optim::AdamW;

TEST_CASE("AdamW decays weights apart from the gradient", "[optim][adamw]") {
  Variable w(Tensor::scalar(2.0));
  AdamW optimizer({.learning_rate = 0.1, .weight_decay = 0.25, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.01});
  test::ScalarAdam reference{
      .learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.01, .weight_decay = 0.25};
  double expected = 2;
  for (const double g : {3.0, -1.0, 0.5, 0.0, 2.0}) {
    optimizer.apply_gradients({{Tensor::scalar(g), w}});
    expected = reference.step(expected, g);
    REQUIRE_THAT(w.value().item<double>(), WithinRel(expected, 1e-14));  // the kernel may round elsewhere
  }
}

TEST_CASE("AdamW without a gradient only decays", "[optim][adamw]") {
  Variable w(Tensor::scalar(2.0));
  AdamW({.learning_rate = 0.5, .weight_decay = 0.25}).apply_gradients({{Tensor::scalar(0.0), w}});
  REQUIRE(w.value().item<double>() == 2 - 0.5 * 0.25 * 2);
}

TEST_CASE("AdamW refuses options out of their ranges", "[optim][adamw]") {
  REQUIRE_THROWS_MATCHES(AdamW({.weight_decay = -1}), InvalidArgument, says("AdamW: weight_decay is -1"));
  REQUIRE_THROWS_MATCHES(AdamW({.beta1 = 1}), InvalidArgument, says("AdamW: beta1 is 1"));
  REQUIRE_THROWS_MATCHES(AdamW({.beta2 = 2}), InvalidArgument, says("AdamW: beta2 is 2"));
  REQUIRE_THROWS_MATCHES(AdamW({.epsilon = -1}), InvalidArgument, says("AdamW: epsilon is -1"));
}
