#include <optional>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::says;
using optim::GradientAccumulator;

namespace {

Tensor tensor_of(const optim::GradientAndVariable& pair) { return pair.gradient.value()->tensors()[0]; }

}  // namespace

TEST_CASE("an accumulator gives the sum of every n steps", "[optim][accumulator]") {
  Variable w(Tensor::zeros({2}));
  GradientAccumulator accumulator(3);
  REQUIRE(accumulator.num_steps() == 3);
  for (int round = 0; round < 3; ++round) {
    const Tensor g = Tensor::from<float>({1, static_cast<float>(round)}, {2});
    REQUIRE_FALSE(accumulator.add({{g, w}}));
    REQUIRE_FALSE(accumulator.add({}));
    REQUIRE_FALSE(accumulator.add({{g, w}}));
    const auto total = accumulator.add({{g, w}});
    REQUIRE(total.has_value());
    REQUIRE(total->size() == 1);
    REQUIRE(total->front().variable == w);
    REQUIRE(tensor_of(total->front()).to_vector<float>() ==
            std::vector<float>{3, 3 * static_cast<float>(round)});
    REQUIRE(g.to_vector<float>()[0] == 1);
  }
}

TEST_CASE("an accumulator of one step hands each list on", "[optim][accumulator]") {
  Variable w(Tensor::scalar(0.0f));
  GradientAccumulator accumulator(1);
  for (const float value : {1.0f, 2.0f})
    REQUIRE(tensor_of(accumulator.add({{Tensor::scalar(value), w}})->front()).item<float>() == value);
}

TEST_CASE("an accumulator's total is a snapshot", "[optim][accumulator]") {
  Variable w(Tensor::scalar(0.0f));
  GradientAccumulator accumulator(1);
  const auto first = accumulator.add({{Tensor::scalar(1.0f), w}});
  const auto second = accumulator.add({{Tensor::scalar(2.0f), w}});
  REQUIRE(tensor_of(first->front()).item<float>() == 1);
  REQUIRE(tensor_of(second->front()).item<float>() == 2);
}

TEST_CASE("an accumulator writes the same memory again, and waits for no device", "[optim][accumulator]") {
  test::LazyDevice device;
  const Stream stream(device);
  const StreamScope stream_scope(stream);
  const DeviceScope device_scope(device.device());
  {
    Variable w(Tensor::zeros({4}));
    const Tensor g = Tensor::ones({4});
    GradientAccumulator accumulator(2);
    accumulator.add({{g, w}});
    const int allocations = device.num_allocations;
    for (int i = 0; i < 6; ++i) accumulator.add({{g, w}});
    REQUIRE(device.num_allocations == allocations);
    REQUIRE_FALSE(stream.is_complete());
    REQUIRE(tensor_of(accumulator.add({{g, w}})->front()).to_vector<float>() == std::vector<float>(4, 2));
  }
  stream.synchronize();
}

TEST_CASE("an accumulator takes sparse rows, nothing, and half precision", "[optim][accumulator]") {
  Variable table(Tensor::zeros({3, 1})), half(Tensor::scalar(0.0f).cast(DType::f16)),
      other(Tensor::scalar(0.0f));
  GradientAccumulator accumulator(2);
  const IndexedSlices rows{
      Tensor::from<float>({1, 2, 4}, {3, 1}), Tensor::from<std::int64_t>({2, 0, 2}, {3}), {3, 1}};
  const Tensor small = Tensor::scalar(0.75f).cast(DType::f16),
               large = Tensor::scalar(2048.0f).cast(DType::f16);
  REQUIRE_FALSE(accumulator.add({{rows, table}, {large, half}, {std::nullopt, other}}));
  const auto total = accumulator.add({{std::nullopt, table}, {small, half}, {std::nullopt, other}});
  REQUIRE(tensor_of((*total)[0]).to_vector<float>() == std::vector<float>{2, 0, 5});
  REQUIRE(tensor_of((*total)[1]).dtype() == DType::f16);
  REQUIRE(tensor_of((*total)[1]).cast(DType::f32).item<float>() == 2048);  // 2048.75, rounded once
  REQUIRE((*total)[2].gradient.is_nothing());
  // A gradient that was nothing begins with its first value.
  accumulator.add({{rows, table}, {small, half}, {std::nullopt, other}});
  const auto next = accumulator.add({{rows, table}, {small, half}, {Tensor::scalar(7.0f), other}});
  REQUIRE(tensor_of((*next)[0]).to_vector<float>() == std::vector<float>{4, 0, 10});
  REQUIRE(tensor_of((*next)[2]).item<float>() == 7);
}

TEST_CASE("three float16 gradients are added in float", "[optim][accumulator]") {
  Variable half(Tensor::scalar(0.0f).cast(DType::f16));
  GradientAccumulator accumulator(3);
  const Tensor one = Tensor::scalar(1.0f).cast(DType::f16);
  accumulator.add({{Tensor::scalar(2048.0f).cast(DType::f16), half}});
  accumulator.add({{one, half}});  // lost, were it added in float16
  REQUIRE(tensor_of(accumulator.add({{one, half}})->front()).cast(DType::f32).item<float>() == 2050);
}

TEST_CASE("an accumulator refuses gradients that do not fit, before it adds any", "[optim][accumulator]") {
  Variable w(Tensor::zeros({2}), {.name = "w"}), b(Tensor::scalar(0.0f), {.name = "b"}), n(Tensor::scalar(1));
  GradientAccumulator accumulator(2);
  const Tensor one = Tensor::scalar(1.0f), ones = Tensor::ones({2});
  accumulator.add({{ones, w}, {one, b}});
  REQUIRE_THROWS_MATCHES(
      accumulator.add({{ones, w}, {ones, b}}), InvalidArgument,
      says("GradientAccumulator::add: the gradient of the variable 'b' on replica 0 is [2] float32",
           "the variable [] float32"));
  REQUIRE_THROWS_MATCHES(accumulator.add({{ones, w}}), InvalidArgument,
                         says("the 1 variables are not the 2 of the first of these steps"));
  REQUIRE_THROWS_MATCHES(accumulator.add({{one, b}, {ones, w}}), InvalidArgument,
                         says("the same variables in the same order"));
  REQUIRE_THROWS_MATCHES(accumulator.add({{ones, w}, {ones, w}}), InvalidArgument,
                         says("'w' is listed twice"));
  REQUIRE_THROWS_MATCHES(accumulator.add({{Tensor::scalar(1), n}}), InvalidArgument, says("int32"));
  const auto total = accumulator.add({{ones, w}, {one, b}});
  REQUIRE(tensor_of((*total)[0]).to_vector<float>() == std::vector<float>{2, 2});
  REQUIRE(tensor_of((*total)[1]).item<float>() == 2);
  // Between totals the variables may change.
  REQUIRE_FALSE(accumulator.add({{one, b}}));
  REQUIRE(tensor_of(accumulator.add({{one, b}})->front()).item<float>() == 2);
}

TEST_CASE("an accumulator forgets at reset", "[optim][accumulator]") {
  Variable w(Tensor::scalar(0.0f));
  GradientAccumulator accumulator(2);
  accumulator.add({{Tensor::scalar(8.0f), w}});
  accumulator.reset();
  REQUIRE_FALSE(accumulator.add({{Tensor::scalar(1.0f), w}}));
  REQUIRE(tensor_of(accumulator.add({{Tensor::scalar(1.0f), w}})->front()).item<float>() == 2);
}

TEST_CASE("an accumulator belongs in replica functions, its reset outside", "[optim][accumulator]") {
  REQUIRE_THROWS_MATCHES(GradientAccumulator(0), InvalidArgument, says("num_steps is 0"));
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(0.0f));
  GradientAccumulator accumulator(2);
  REQUIRE_THROWS_MATCHES(accumulator.add({{Tensor::scalar(1.0f), w}}), ContextError,
                         says("in cross-replica context"));
  REQUIRE_THROWS_MATCHES(strategy.run([&] { accumulator.reset(); }), ContextError,
                         says("reset in a replica function"));
}
