#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/scalar_optimizer.hpp"

using namespace lockstep;
using Catch::Matchers::WithinRel;
using lockstep::test::says;
using optim::Momentum;

TEST_CASE("Momentum keeps a velocity, with Nesterov's look ahead or without", "[optim][momentum]") {
  const bool nesterov = GENERATE(false, true);
  Variable w(Tensor::scalar(1.0), {.name = "w"});
  Momentum optimizer({.learning_rate = 0.25, .momentum = 0.5, .nesterov = nesterov});
  optimizer.apply_gradients({{Tensor::scalar(4.0), w}});
  REQUIRE(w.value().item<double>() == (nesterov ? 1 - 0.25 * 6 : 0));
  w.assign(0);
  optimizer.apply_gradients({{Tensor::scalar(4.0), w}});
  REQUIRE(w.value().item<double>() == -0.25 * (nesterov ? 7 : 6));
  const auto variables = optimizer.variables();
  REQUIRE(variables.size() == 2);
  REQUIRE(variables[1].first == "w/velocity");
  REQUIRE(variables[1].second.value().item<double>() == 6);
}

TEST_CASE("Momentum follows its definition while the rate changes", "[optim][momentum]") {
  const bool nesterov = GENERATE(false, true);
  Variable w(Tensor::scalar(2.0));
  Momentum optimizer({.learning_rate = optim::LearningRate::step_decay({.initial = 0.1, .factor = 0.5}),
                      .momentum = 0.9,
                      .nesterov = nesterov,
                      .weight_decay = 0.125});
  test::ScalarMomentum reference{
      .learning_rate = 0.1, .momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.125};
  double expected = 2;
  for (const double g : {3.0, -1.0, 0.5, 0.0, 2.0}) {
    optimizer.apply_gradients({{Tensor::scalar(g), w}});
    expected = reference.step(expected, g);
    reference.learning_rate *= 0.5;
    REQUIRE_THAT(w.value().item<double>(), WithinRel(expected, 1e-14));  // the kernel may round elsewhere
  }
}

TEST_CASE("Momentum of 0 is SGD, without a slot", "[optim][momentum]") {
  Variable w(Tensor::scalar(1.0));
  Momentum optimizer({.learning_rate = 0.5, .momentum = 0});
  optimizer.apply_gradients({{Tensor::scalar(1.0), w}});
  REQUIRE(w.value().item<double>() == 0.5);
  REQUIRE(optimizer.variables().size() == 1);
}

TEST_CASE("Momentum refuses options out of their ranges", "[optim][momentum]") {
  REQUIRE_THROWS_MATCHES(Momentum({.momentum = 1}), InvalidArgument, says("Momentum: momentum is 1"));
  REQUIRE_THROWS_MATCHES(Momentum({.momentum = -0.5}), InvalidArgument, says("Momentum: momentum is -0.5"));
  REQUIRE_THROWS_MATCHES(Momentum({.momentum = 0, .nesterov = true}), InvalidArgument,
                         says("Momentum: nesterov without momentum"));
  REQUIRE_THROWS_MATCHES(Momentum({.weight_decay = -1}), InvalidArgument, says("weight_decay is -1"));
}
