#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/scalar_optimizer.hpp"

using namespace lockstep;
using Catch::Matchers::WithinRel;
using lockstep::test::says;
using optim::Adam;

TEST_CASE("Adam's first step is the learning rate, whatever the gradient", "[optim][adam]") {
  Variable w(Tensor::from<double>({1, 1, 1}, {3}));
  Adam({.learning_rate = 0.25, .epsilon = 1e-300})
      .apply_gradients({{Tensor::from<double>({4, -1e-3, 0}, {3}), w}});
  const std::vector<double> values = w.value().to_vector<double>();
  REQUIRE_THAT(values[0], WithinRel(0.75, 1e-15));
  REQUIRE_THAT(values[1], WithinRel(1.25, 1e-15));
  REQUIRE(values[2] == 1);
}

TEST_CASE("Adam follows algorithm 1 of the paper", "[optim][adam]") {
  Variable w(Tensor::scalar(2.0), {.name = "w"});
  Adam optimizer({.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.01});
  test::ScalarAdam reference{.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.01};
  double expected = 2;
  for (const double g : {3.0, -1.0, 0.5, 0.0, 2.0}) {
    optimizer.apply_gradients({{Tensor::scalar(g), w}});
    expected = reference.step(expected, g);
    REQUIRE_THAT(w.value().item<double>(), WithinRel(expected, 1e-14));  // the kernel may round elsewhere
  }
  const auto variables = optimizer.variables();
  REQUIRE(variables.size() == 3);
  REQUIRE(variables[1].first == "w/first_moment");
  REQUIRE_THAT(variables[1].second.value().item<double>(), WithinRel(reference.first_moment, 1e-14));
  REQUIRE(variables[2].first == "w/second_moment");
  REQUIRE_THAT(variables[2].second.value().item<double>(), WithinRel(reference.second_moment, 1e-14));
}

TEST_CASE("Adam refuses options out of their ranges", "[optim][adam]") {
  REQUIRE_THROWS_MATCHES(Adam({.beta1 = 1}), InvalidArgument, says("Adam: beta1 is 1", "[0, 1)"));
  REQUIRE_THROWS_MATCHES(Adam({.beta2 = -1}), InvalidArgument, says("Adam: beta2 is -1"));
  REQUIRE_THROWS_MATCHES(Adam({.epsilon = 0}), InvalidArgument, says("Adam: epsilon is 0", "above 0"));
}
