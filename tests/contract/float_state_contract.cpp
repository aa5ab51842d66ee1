#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/float_state.hpp"
#include "support/replica_values.hpp"

/// Results do not depend on the calling thread's floating-point state, which stays as it is.
namespace lockstep::test {

namespace {

FloatState any_state() {
  return GENERATE(FloatState::flushing, FloatState::upward, FloatState::towards_zero);
}

/// Small enough for sums, products and quotients to be subnormal, and with digits to round.
Tensor small(DType dtype = DType::f32) {
  const float unit = dtype == DType::f16 ? 0x1p-20f : 0x1p-128f;
  return Tensor::from<float>({3 * unit, -2.5f * unit, 1.3f * unit, 4.7f, -1.0f / 3, unit}, {2, 3})
      .to(TestBackend::device())
      .cast(dtype);
}

std::vector<std::uint8_t> bytes(const Tensor& tensor) {
  const Tensor host = tensor.contiguous().to("CPU:0");
  current_stream("CPU:0").synchronize();
  std::vector<std::uint8_t> result(static_cast<std::size_t>(host.nbytes()));
  if (!result.empty()) std::memcpy(result.data(), host.view().data, result.size());
  return result;
}

/// f gives the same bits in every state, and the thread has its own afterwards.
void check(const std::string& what, const std::function<Tensor()>& f) {
  CAPTURE(what);
  const std::vector<std::uint8_t> usual = bytes(f());
  const FloatState state = any_state();
  CAPTURE(static_cast<int>(state));
  std::vector<std::uint8_t> changed;
  bool flushes = false;
  float third = 0, third_after = 0;
  {
    const FloatStateScope scope(state);
    third = FloatStateScope::third();
    changed = bytes(f());
    third_after = FloatStateScope::third();
    flushes = FloatStateScope::flushes();
  }
  REQUIRE(changed == usual);
  REQUIRE(third_after == third);
#if defined(__x86_64__) || defined(__aarch64__)
  REQUIRE(flushes == (state == FloatState::flushing));
#endif
}

}  // namespace

TEST_CASE("element-wise work is the same in every floating-point state", "[kernels][float_state]") {
  const Tensor a = small(), b = small().mul_(0.7f), wide = a.cast(DType::f64) / 3.0;
  const Tensor half = small(DType::f16);
  check("add", [&] { return a + b; });
  check("subtract", [&] { return a - b; });
  check("multiply", [&] { return a * b; });
  check("divide", [&] { return b / a; });
  check("divide by a number", [&] { return a / 3; });
  check("exp", [&] { return exp(a); });
  check("sqrt and log", [&] { return log(sqrt(a * a)); });
  check("relu", [&] { return relu(a); });
  check("small floats", [&] { return half * 0.3f; });
  check("to a smaller dtype", [&] { return wide.cast(DType::f32); });
  check("to half", [&] { return a.cast(DType::f16); });
  check("from integers", [&] { return Tensor::full({3}, 16777217, DType::i32).cast(DType::f32); });
  check("a subnormal number",
        [] { return Tensor::full({3}, 0x1.8p-130f, DType::f32, TestBackend::device()); });
  check("a number that is rounded", [] { return Tensor::full({3}, 0.1, DType::f32, TestBackend::device()); });
  check("a number that meets a tensor", [&] { return a * 0.1; });
  check("a range", [] { return Tensor::arange(0.0f, 1.0f, 0.1f); });
}

TEST_CASE("reductions and products are the same in every floating-point state", "[kernels][float_state]") {
  const Tensor a = small();
  check("sum", [&] { return sum(a, 1); });
  check("mean", [&] { return mean(a); });
  check("mean in two steps", [&] { return mean(a.reshape({1, 3, 2}), {0, 2}); });
  check("max", [&] { return max(-a, 0); });
  check("argmax", [] { return argmax(Tensor::from<float>({0, 0x1p-130f}, {2}).to(TestBackend::device())); });
  check("matmul", [&] { return matmul(a.reshape({2, 3}), a.reshape({3, 2})); });
  check("cross entropy", [&] {
    return softmax_cross_entropy(a, Tensor::from<std::int64_t>({0, 2}, {2}).to(TestBackend::device())).first;
  });
}

TEST_CASE("updates are the same in every floating-point state", "[kernels][float_state]") {
  const Tensor initial = small(), gradient = small().mul_(0.7f);
  const auto updated = [&](optim::Optimizer& optimizer) {
    OneDeviceStrategy strategy(TestBackend::device());
    Variable w = strategy.make_variable(initial);
    for (int i = 0; i < 3; ++i) optimizer.apply_gradients({{gradient, w}});
    return w.value().clone();
  };
  check("adam", [&] {
    optim::Adam adam({.learning_rate = 0.1});
    return updated(adam);
  });
  check("momentum", [&] {
    optim::Momentum momentum({.learning_rate = 0.1, .momentum = 0.9});
    return updated(momentum);
  });
}

TEST_CASE("replicas hold the same bits whatever floating-point state the caller's thread has",
          "[strategy][float_state]") {
  Replicas strategy(2);
  strategy.run([](ReplicaContext&) {});  // the threads are there: the caller alone changes its state
  const auto op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::max);
  const auto all_reduced = [&] {
    return strategy.run([&](ReplicaContext& ctx) {
      return ctx.all_reduce(op, Tensor::full({1027}, ctx.local_index() == 0 ? 2e-38f : -1.5e-38f));
    });
  };
  const auto usual = all_reduced();
  PerReplica<Tensor> changed = usual;
  Tensor outside, reduced_usual = strategy.reduce(op, usual, 0);
  {
    const FloatStateScope scope(any_state());
    changed = all_reduced();
    outside = strategy.reduce(op, usual, 0);
  }
  for (int i = 0; i < 2; ++i) REQUIRE(bytes(changed[i]) == bytes(usual[0]));
  REQUIRE(bytes(outside) == bytes(reduced_usual));
}

}  // namespace lockstep::test
