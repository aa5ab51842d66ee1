#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/captured_stderr.hpp"
#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::says;
using optim::Adam;
using optim::LearningRate;
using optim::Momentum;
using optim::SGD;

namespace {

std::vector<std::string> names(const optim::Optimizer& optimizer) {
  std::vector<std::string> result;
  for (const auto& [name, variable] : optimizer.variables()) result.push_back(name);
  return result;
}

std::int64_t steps(const optim::Optimizer& optimizer) {
  return optimizer.iterations().value().item<std::int64_t>();
}

}  // namespace

TEST_CASE("an optimizer names its variables, each once", "[optim][optimizer]") {
  const Tensor zero = Tensor::scalar(0.0f);
  Variable a(zero, {.name = "w"}), b(zero, {.name = "w_1"}), c(zero, {.name = "w"}), d(zero, {.name = "w"}),
      e(zero, {.name = "layer/b"});
  Momentum optimizer;
  REQUIRE(names(optimizer).empty());
  optimizer.build({a, b, c});
  const std::vector<std::string> first{"iterations", "w/velocity", "w_1/velocity", "w_2/velocity"};
  REQUIRE(names(optimizer) == first);
  optimizer.build({c, a});
  REQUIRE(names(optimizer) == first);
  optimizer.apply_gradients({{zero, e}, {zero, d}, {zero, a}});
  REQUIRE(names(optimizer) == std::vector<std::string>{"iterations", "w/velocity", "w_1/velocity",
                                                       "w_2/velocity", "layer/b/velocity", "w_3/velocity"});
  const auto variables = optimizer.variables();
  REQUIRE(variables[0].second == optimizer.iterations());
  REQUIRE(variables[4].second.name() == "layer/b/velocity");
  REQUIRE_FALSE(variables[4].second.trainable());
}

TEST_CASE("slots are made beside their variables, as zeros", "[optim][optimizer]") {
  MirroredStrategy strategy({"CPU:1", "CPU:2", "CPU:3"});
  Adam optimizer;
  {
    const auto scope = strategy.scope();
    const Variable w(Tensor::ones({2, 3}, DType::f64), {.name = "w"});
    optimizer.build({w});
  }
  const auto variables = optimizer.variables();
  REQUIRE(variables.size() == 3);
  for (const auto& [name, variable] : variables) {
    CAPTURE(name);
    const std::vector<Tensor> components = strategy.local_results(variable);
    REQUIRE(components.size() == 3);
    REQUIRE(&variable.strategy() == &strategy);
    REQUIRE_FALSE(variable.trainable());
    for (int i = 0; i < 3; ++i)
      REQUIRE(components[static_cast<std::size_t>(i)].device() == Device(DeviceKind::cpu, i + 1));
  }
  REQUIRE(variables[0].second.dtype() == DType::i64);
  REQUIRE(variables[0].second.aggregation() == VariableAggregation::only_first_replica);
  REQUIRE(variables[2].second.value().to_vector<double>() == std::vector<double>(6, 0));
}

TEST_CASE("slots of the default strategy are made on their variable's device", "[optim][optimizer]") {
  std::optional<Variable> w;
  {
    const DeviceScope here("CPU:2");
    w.emplace(Tensor::zeros({2}));
  }
  Momentum optimizer;
  optimizer.apply_gradients({{Tensor::ones({2}), *w}});
  for (const auto& [name, variable] : optimizer.variables())
    REQUIRE(variable.value().device() == Device("CPU:2"));
  REQUIRE(w->value().device() == Device("CPU:2"));
}

TEST_CASE("iterations count steps, and set the number of the next one", "[optim][optimizer]") {
  Variable w(Tensor::scalar(0.0));
  SGD optimizer(
      {.learning_rate = LearningRate([](std::int64_t step) { return static_cast<double>(step + 1); })});
  REQUIRE(optimizer.learning_rate() == 1);
  const auto step = [&] {
    w.assign(0);
    optimizer.apply_gradients({{Tensor::scalar(-1.0), w}});
    return w.value().item<double>();
  };
  REQUIRE(step() == 1);
  REQUIRE(step() == 2);
  REQUIRE(steps(optimizer) == 2);
  REQUIRE(optimizer.learning_rate() == 3);
  optimizer.iterations().assign(10);
  REQUIRE(optimizer.learning_rate() == 11);
  REQUIRE(step() == 11);
  const Tensor snapshot = optimizer.iterations().value();
  REQUIRE(step() == 12);
  REQUIRE(snapshot.item<std::int64_t>() == 11);
  REQUIRE(steps(optimizer) == 12);
  optimizer.iterations().assign_sub(12);
  REQUIRE(step() == 1);
  optimizer.set_learning_rate(0.5);
  REQUIRE(optimizer.learning_rate() == 0.5);
  REQUIRE(step() == 0.5);
  REQUIRE(steps(optimizer) == 2);
  optimizer.iterations().assign(-3);
  REQUIRE_THROWS_MATCHES(step(), InvalidArgument, says("SGD: its iterations were set to -3"));
  optimizer.iterations().assign(std::numeric_limits<std::int64_t>::max());
  REQUIRE_THROWS_MATCHES(step(), InvalidArgument,
                         says("SGD: its iterations were set to 9223372036854775807"));
  REQUIRE(w.value().item<double>() == 0);
}

TEST_CASE("an optimizer goes on where a restored one was", "[optim][optimizer]") {
  Variable w(Tensor::scalar(1.0), {.name = "w"}), v(Tensor::scalar(1.0), {.name = "w"});
  const optim::AdamOptions options{.learning_rate = 0.1};
  Adam whole(options), before(options), after(options);
  const auto step = [](Adam& optimizer, Variable& variable, double g) {
    optimizer.apply_gradients({{Tensor::scalar(g), variable}});
  };
  for (const double g : {1.0, -2.0, 3.0}) step(whole, w, g);
  step(before, v, 1.0);
  step(before, v, -2.0);
  after.build({v});
  REQUIRE(names(after) == names(before));
  for (std::size_t k = 0; k < before.variables().size(); ++k)
    after.variables()[k].second.assign(before.variables()[k].second.value());
  step(after, v, 3.0);
  REQUIRE(v.value().item<double>() == w.value().item<double>());
  REQUIRE(steps(after) == 3);
}

TEST_CASE("apply_gradients waits for no device, except for iterations that were written",
          "[optim][optimizer]") {
  test::LazyDevice device;
  const Stream stream(device);
  const StreamScope stream_scope(stream);
  const DeviceScope device_scope(device.device());
  {
    Variable w(Tensor::full({2}, 1.0f));
    const Tensor g = Tensor::full({2}, 3.0f);
    Adam optimizer({.learning_rate = 0.5, .global_clip_norm = 1});
    Momentum momentum({.learning_rate = 0.5});
    for (int i = 0; i < 3; ++i) {
      optimizer.apply_gradients({{g, w}});
      momentum.apply_gradients({{g, w}});
    }
    REQUIRE(optimizer.learning_rate() == 0.5);
    REQUIRE_FALSE(stream.is_complete());
    // Without clipping and communication, a step takes no memory.
    const int allocations = device.num_allocations;
    momentum.apply_gradients({{g, w}});
    REQUIRE(device.num_allocations == allocations);
    momentum.iterations().assign(7);
    momentum.apply_gradients({{g, w}});
    REQUIRE(steps(momentum) == 8);
    REQUIRE(steps(optimizer) == 3);
  }
  stream.synchronize();
}

TEST_CASE("a variable without a gradient is left out, with one warning", "[optim][optimizer]") {
  Variable w(Tensor::scalar(1.0f), {.name = "w"}), b(Tensor::scalar(1.0f), {.name = "b"}),
      c(Tensor::scalar(1.0f), {.name = "c"});
  const Tensor one = Tensor::scalar(1.0f);
  SGD optimizer({.learning_rate = 0.5, .weight_decay = 0.5});
  const std::string warning = test::captured_stderr([&] {
    for (int i = 0; i < 2; ++i)
      optimizer.apply_gradients({{std::nullopt, b}, {one, w}, {std::optional<Tensor>(), c}});
  });
  REQUIRE(warning ==
          "lockstep: apply_gradients of SGD: there is no gradient for the variables 'b', 'c', which stay as "
          "they are\n");
  REQUIRE(w.value().item<float>() == -0.3125f);
  REQUIRE(b.value().item<float>() == 1);
  REQUIRE(steps(optimizer) == 2);
}

TEST_CASE("nothing for all variables is refused; an empty list is no step", "[optim][optimizer]") {
  Variable w(Tensor::scalar(1.0f), {.name = "w"}), b(Tensor::scalar(1.0f), {.name = "b"});
  Momentum optimizer;
  REQUIRE_THROWS_MATCHES(
      optimizer.apply_gradients({{std::nullopt, w}, {std::nullopt, b}}), InvalidArgument,
      says("apply_gradients of Momentum", "no gradient for any of the variables 'w', 'b'", "the loss"));
  optimizer.apply_gradients({});
  REQUIRE(names(optimizer).empty());
  REQUIRE_THROWS_MATCHES(optimizer.iterations(), ContextError,
                         says("iterations of Momentum", "no variable yet", "build"));
}

TEST_CASE("what does not fit is refused before anything has changed", "[optim][optimizer]") {
  Variable w(Tensor::ones({2}), {.name = "w"}), b(Tensor::scalar(1.0f), {.name = "b"}),
      n(Tensor::scalar(1), {.name = "n"});
  const Tensor ones = Tensor::ones({2}), one = Tensor::scalar(1.0f);
  Momentum optimizer;
  REQUIRE_THROWS_MATCHES(
      optimizer.apply_gradients({{ones, w}, {ones, b}}), InvalidArgument,
      says("apply_gradients: the gradient of the variable 'b' is [2] float32", "the variable [] float32"));
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{ones, w}, {Tensor::scalar(1.0), b}}), InvalidArgument,
                         says("'b' is [] float64", "cast"));
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{ones, w}, {one, b}, {ones, w}}), InvalidArgument,
                         says("apply_gradients: the variable 'w' is listed twice"));
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{ones, w}, {Tensor::scalar(1), n}}), InvalidArgument,
                         says("the variable 'n' is [] int32", "floating-point"));
  REQUIRE_THROWS_MATCHES(optimizer.build({w, n}), InvalidArgument, says("build: the variable 'n' is"));
  const IndexedSlices rows{Tensor::ones({1}), Tensor::from<std::int64_t>({1}, {1}), {3}};
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{rows, w}}), InvalidArgument,
                         says("'w' is sparse rows of [3] float32", "the variable [2] float32"));
  const IndexedSlices unfit{Tensor::ones({2}), Tensor::from<std::int64_t>({1}, {1}), {2}};
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{unfit, w}}), InvalidArgument, says("IndexedSlices"));
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{Tensor(), w}}), InvalidArgument,
                         says("gradient of the variable 'w'", "empty Tensor"));
  const PerReplica two(std::vector{ones, Tensor::ones({2})});
  REQUIRE_THROWS_MATCHES(
      optimizer.apply_gradients({{two, w}}), InvalidArgument,
      says("'w' is a per-replica value with 2 components", "reduce_to(op, value, variable)"));
  const Mirrored mirrored(std::vector{ones, Tensor::ones({2})});
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{mirrored, w}}), InvalidArgument,
                         says("'w' is a mirrored value with 2 components, the variable has 1"));
  REQUIRE(names(optimizer).empty());
  REQUIRE(w.value().to_vector<float>() == std::vector<float>{1, 1});
  REQUIRE(b.value().item<float>() == 1);
  const IndexedSlices outside{Tensor::ones({1}), Tensor::from<std::int64_t>({2}, {1}), {2}};
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{one, b}, {outside, w}}), InvalidArgument,
                         says("index 2 is outside"));
  REQUIRE(b.value().item<float>() == 1);
  REQUIRE(names(optimizer).empty());
}

TEST_CASE("a schedule that fails leaves everything as it was", "[optim][optimizer]") {
  Variable w(Tensor::scalar(1.0f));
  SGD optimizer({.learning_rate = LearningRate([](std::int64_t step) -> double {
                   if (step == 1) throw std::runtime_error("no rate");
                   return step == 0 ? 0.5 : -1;
                 })});
  const auto step = [&] { optimizer.apply_gradients({{Tensor::scalar(1.0f), w}}); };
  step();
  REQUIRE_THROWS_MATCHES(step(), std::runtime_error, says("no rate"));
  REQUIRE(steps(optimizer) == 1);
  optimizer.iterations().assign(2);
  REQUIRE_THROWS_MATCHES(step(), InvalidArgument, says("the rate of step 2 is -1"));
  REQUIRE(w.value().item<float>() == 0.5f);
}

TEST_CASE("an optimizer keeps to one strategy", "[optim][optimizer]") {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  Variable outside(Tensor::scalar(1.0f), {.name = "outside"});
  std::optional<Variable> inside;
  {
    const auto scope = strategy.scope();
    inside.emplace(Tensor::scalar(1.0f), VariableOptions{.name = "inside"});
  }
  const Tensor one = Tensor::scalar(1.0f);
  SGD optimizer({.learning_rate = 0.5});
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{one, *inside}, {one, outside}}), InvalidArgument,
                         says("apply_gradients for the variable 'outside' in MirroredStrategy",
                              "made by another strategy, the default strategy"));
  REQUIRE_THROWS_MATCHES(optimizer.build({outside, *inside}), InvalidArgument,
                         says("build of SGD for the variable 'inside' in the default strategy",
                              "another strategy, MirroredStrategy"));
  optimizer.apply_gradients({{one, *inside}});
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{one, outside}}), InvalidArgument,
                         says("SGD: it has updated variables of MirroredStrategy before",
                              "these are of the default strategy", "one optimizer for each"));
  REQUIRE_THROWS_MATCHES(optimizer.build({outside}), InvalidArgument, says("has updated variables of"));
  {
    const auto scope = strategy.scope();
    REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{one, outside}}), InvalidArgument,
                           says("made by another strategy"));
  }
  REQUIRE(outside.value().item<float>() == 1);
  REQUIRE(inside->value().item<float>() == 0.5f);
}

TEST_CASE("optimizers may be written outside of the library", "[optim][optimizer]") {
  /// Steps by the gradient's sum so far.
  class Sum final : public optim::Optimizer {
   public:
    Sum() : Optimizer("Sum", 0.5, 0, {"sum"}) {}

   private:
    void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                const Step& step) const override {
      Tensor sum = slots[0];
      sum.add_(gradient);
      variable.sub_(sum * (step.learning_rate * static_cast<double>(step.number)));
    }
  };
  Variable w(Tensor::scalar(0.0));
  Sum optimizer;
  optimizer.apply_gradients({{Tensor::scalar(1.0), w}});
  optimizer.apply_gradients({{Tensor::scalar(1.0), w}});
  REQUIRE(w.value().item<double>() == -0.5 - 2);
  REQUIRE(names(optimizer) == std::vector<std::string>{"iterations", "Variable/sum"});
}
