#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/call_hook.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/scoped_log_sink.hpp"

/// Functions of a strategy as graphs; what they do is in tests/contract/strategy/function_contract.cpp.
namespace lockstep::test {
namespace {

using Values = std::vector<float>;

constexpr int kCudaErrorUnknown = 999;

/// A network of one layer with a step that has everything: collectives, a reduction beside other work, an
/// optimizer with a schedule and clipping, and a metric.
class Network {
 public:
  explicit Network(int num_replicas) : strategy(num_replicas) {}

  Tensor step(ReplicaContext& ctx, const Tensor& x) {
    auto rows = ctx.start_all_reduce(ReduceOp::sum, static_cast<float>(x.size()));
    const Tensor y = x * weights.value();
    loss.update(y);
    optimizer.apply_gradients({{y / rows.wait(), weights}});
    return y;
  }
  auto function() {
    return strategy.function([this](ReplicaContext& ctx, const Tensor& x) { return step(ctx, x); });
  }
  PerReplica<Tensor> batch(int call) const {
    std::vector<Values> values;
    for (int i = 0; i < strategy.num_replicas_in_sync(); ++i)
      values.push_back(Values(100, static_cast<float>(call + i) * 0.25f));
    return vectors(values);
  }
  Values state() {
    Values all = weights.value().to_vector<float>();
    all.push_back(static_cast<float>(loss.result().item<double>()));
    return all;
  }

  Replicas strategy;
  Variable weights = strategy.make_variable(Tensor::full({100}, 2.0f), {.name = "weights"});
  optim::Adam optimizer{{.learning_rate = optim::LearningRate::cosine_decay({.peak = 0.1, .num_steps = 50}),
                         .global_clip_norm = 1}};
  metrics::Mean loss = [this] {
    const auto scope = strategy.scope();
    return metrics::Mean("loss");
  }();
};

int num_gpus() {
  return std::getenv("LOCKSTEP_TEST_VIRTUAL_DEVICES") != nullptr ? 1 : TestBackend::num_devices();
}

void wait_for_all(const Strategy&) {
  for (int i = 0; i < TestBackend::num_devices(); ++i) current_stream(TestBackend::device(i)).synchronize();
}

/// How often each call is made; those that ask for or set the thread's context are left out.
class CountedCalls {
 public:
  CountedCalls()
      : hook_([this](std::string_view name, bool is_over) {
          const std::lock_guard lock(mutex_);
          // Virtual GPUs also tell the kernels that run.
          const bool is_operation = name == "kernel" || name == "copy" || name == "collective";
          const bool is_context =
              name.starts_with("cuCtx") || name == "cudaGetDevice" || name == "cudaSetDevice";
          if (!is_over && !is_operation && !is_context) ++calls_[std::string(name)];
          return 0;
        }) {}
  std::map<std::string, int> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> calls_;
  CallHook hook_;
};

std::string text(const std::map<std::string, int>& calls) {
  std::string all;
  for (const auto& [name, count] : calls) all += name + ": " + std::to_string(count) + "\n";
  return all;
}

}  // namespace

TEST_CASE("a step of a function is one launch for each GPU, and no other call", "[cuda][function]") {
  Network network(TestBackend::num_devices());
  auto step = network.function();
  std::vector<PerReplica<Tensor>> batches;
  for (int call = 0; call < 20; ++call) batches.push_back(network.batch(call));
  std::optional<PerReplica<Tensor>> result;
  for (int call = 0; call < 8; ++call) result = step(batches[static_cast<std::size_t>(call)]);
  wait_for_all(network.strategy);

  std::map<std::string, int> calls;
  {
    CountedCalls counted;
    for (int call = 8; call < 18; ++call) result = step(batches[static_cast<std::size_t>(call)]);
    calls = counted.take();
  }
  const int n = TestBackend::num_devices(), g = num_gpus();
  std::map<std::string, int> expected{{"cudaGraphLaunch", 10 * g}};
  if (n > g) {  // virtual devices' streams are joined
    expected["cudaEventRecord"] = 10 * n;
    expected["cudaStreamWaitEvent"] = 10 * 2 * (n - 1);
    std::erase_if(calls, [](const auto& call) { return call.first.find("Captur") != std::string::npos; });
  }
  CHECK(text(calls) == text(expected));

  Network plain(n);
  for (int call = 0; call < 18; ++call)
    plain.strategy.run([&](ReplicaContext& ctx, const Tensor& x) { return plain.step(ctx, x); },
                       batches[static_cast<std::size_t>(call)]);
  CHECK(network.state() == plain.state());
}

TEST_CASE("a signature is captured once", "[cuda][function]") {
  Network network(TestBackend::num_devices());
  auto step = network.function();
  CountedCalls counted;
  for (int call = 0; call < 6; ++call) step(network.batch(call));
  CHECK(counted.take()["cudaStreamBeginCapture"] == num_gpus());
  step.clear();
  for (int call = 0; call < 3; ++call) step(network.batch(call));
  CHECK(counted.take()["cudaStreamBeginCapture"] == num_gpus());
}

TEST_CASE("launches of a function need not wait for each other", "[cuda][function]") {
  const int n = TestBackend::num_devices();
  Replicas strategy(n);
  Variable total = strategy.make_variable(Tensor::zeros({}), {.aggregation = VariableAggregation::mean});
  auto step = strategy.function([&](const Tensor& x) { total.assign_add(x); });
  const auto x = strategy.run([] { return Tensor::scalar(2.0f); });
  for (int call = 0; call < 200; ++call) step(x);  // more than may be on their way
  CHECK(total.value().item<float>() == 400);
}

TEST_CASE("a function's launches follow the current streams", "[cuda][function]") {
  const int n = TestBackend::num_devices();
  Replicas strategy(n);
  auto step = strategy.function(
      [](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, x * 2.0f); });
  for (int call = 0; call < 9; ++call) {
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<std::unique_ptr<StreamScope>> scopes;
    if (call % 3 != 0)
      for (int i = 0; i < n; ++i) {
        streams.push_back(std::make_unique<Stream>(TestBackend::device(i)));
        scopes.push_back(std::make_unique<StreamScope>(*streams.back()));
      }
    const auto x = strategy.run([&] { return Tensor::full({1000}, static_cast<float>(call)); });
    const auto result = step(x);
    for (const Tensor& component : result)
      REQUIRE(component.to_vector<float>() == Values(1000, static_cast<float>(2 * n * call)));
    for (const auto& stream : streams) stream->synchronize();
  }
}

TEST_CASE("a trace is not made while a value() of its variable is held", "[cuda][function]") {
  const int n = TestBackend::num_devices();
  Replicas strategy(n);
  Variable count =
      strategy.make_variable(Tensor::zeros({2}), {.name = "count", .aggregation = VariableAggregation::mean});
  auto step = strategy.function([&] { count.assign_add(Tensor::ones({2})); });
  step();
  std::optional<Tensor> held = count.value();
  REQUIRE_THROWS_MATCHES(step(), Unsupported, says("Writing a variable", "value() is held", "clone()"));
  REQUIRE(count.value().to_vector<float>() == Values(2, 1));
  held.reset();
  for (int call = 0; call < 3; ++call) step();
  REQUIRE(count.value().to_vector<float>() == Values(2, 4));
}

TEST_CASE("a traced step takes nothing from the host, and leaves nothing there", "[cuda][function]") {
  const int n = TestBackend::num_devices();
  Replicas strategy(n);
  const Tensor on_host = Tensor::ones({5}, DType::f32, Device("CPU:0"));
  auto takes = strategy.function([&](ReplicaContext& ctx) { return on_host.to(ctx.device()); });
  auto leaves = strategy.function([](const Tensor& x) { static_cast<void>(x.to(Device("CPU:0"))); });
  auto returns = strategy.function([&] { return on_host; });
  const auto x = strategy.run([] { return Tensor::ones({5}); });
  takes(), leaves(x), returns();
  CHECK_THROWS_MATCHES(takes(), ContextError, says("A copy of [5] float32 from CPU:0", "argument"));
  CHECK_THROWS_MATCHES(leaves(x), ContextError, says("to CPU:0", "traced step", "Return the tensor"));
  CHECK_THROWS_MATCHES(returns(), InvalidArgument, says("a result is [5] float32 on CPU:0", "Return it on"));
}

TEST_CASE("a function of arguments that are elsewhere runs without a graph, which the log tells",
          "[cuda][function]") {
  const int n = TestBackend::num_devices();
  Replicas strategy(n);
  auto step =
      strategy.function([](ReplicaContext& ctx, const Tensor& x) { return x.to(ctx.device()) * 2.0f; });
  std::vector<std::string> lines;
  {
    const ScopedLogSink sink([&lines](std::string_view line) { lines.emplace_back(line); });
    for (int call = 0; call < 4; ++call) {
      const Tensor x = Tensor::full({3}, static_cast<float>(call), DType::f32, Device("CPU:0"));
      REQUIRE(step(x)[n - 1].to_vector<float>() == Values(3, static_cast<float>(2 * call)));
    }
  }
  REQUIRE(lines.size() == 1);
  REQUIRE_THAT(std::runtime_error(lines[0]), says("[3] float32 on CPU:0", "without a graph", "Pass tensors"));
}

TEST_CASE("a capture that fails leaves the step as it was", "[cuda][function]") {
  const int n = TestBackend::num_devices();
  Network network(n), plain(n);
  auto step = network.function();
  const auto run_plain = [&](int call) {
    plain.strategy.run([&](ReplicaContext& ctx, const Tensor& x) { return plain.step(ctx, x); },
                       network.batch(call));
  };
  step(network.batch(0));
  run_plain(0);
  for (const char* const name : {"cudaStreamBeginCapture", "cudaGraphInstantiate", "cudaMallocFromPoolAsync",
                                 "cudaGraphRetainUserObject"}) {
    CAPTURE(name);
    {
      const CallHook hook = CallHook::failing(name, kCudaErrorUnknown);
      REQUIRE_THROWS_AS(step(network.batch(1)), DeviceError);
    }
    REQUIRE(network.state() == plain.state());
  }
  for (int call = 1; call < 4; ++call) {
    step(network.batch(call));
    run_plain(call);
    REQUIRE(network.state() == plain.state());
  }
}

TEST_CASE("a launch that fails leaves the optimizer as it was", "[cuda][function]") {
  if (num_gpus() > 1) SKIP("one GPU's launch alone leaves the others waiting");
  Network network(TestBackend::num_devices());
  auto step = network.function();
  for (int call = 0; call < 3; ++call) step(network.batch(call));
  const auto before = network.state();
  {
    const CallHook hook = CallHook::failing("cudaGraphLaunch", kCudaErrorUnknown);
    REQUIRE_THROWS_MATCHES(step(network.batch(3)), DeviceError, says("Launching a step", "cudaGraphLaunch"));
  }
  REQUIRE(network.state() == before);
  step(network.batch(3));
  REQUIRE(network.optimizer.iterations().value().item<std::int64_t>() == 4);
}

TEST_CASE("a launch that fails on one of several GPUs ends the collectives of the others",
          "[cuda][function]") {
  if (num_gpus() < 2) SKIP("needs two GPUs");
  Network network(num_gpus());
  auto step = network.function();
  for (int call = 0; call < 3; ++call) step(network.batch(call));
  wait_for_all(network.strategy);
  {
    std::atomic<int> launches = 0;
    const CallHook hook([&](std::string_view name, bool is_over) {
      return name == "cudaGraphLaunch" && !is_over && ++launches == 1 ? kCudaErrorUnknown : 0;
    });
    REQUIRE_THROWS_MATCHES(step(network.batch(3)), DeviceError, says("Launching a step", "cudaGraphLaunch"));
  }
  REQUIRE_THROWS_MATCHES(step(network.batch(3)), CollectiveAborted, says("failed before", "new strategy"));
}

TEST_CASE("a first launch that fails leaves what a step accumulates as it was", "[cuda][function]") {
  if (num_gpus() > 1) SKIP("one GPU's launch alone leaves the others waiting");
  Replicas strategy(1);
  Variable weights = strategy.make_variable(Tensor::ones({2}));
  optim::GradientAccumulator gradients(2);
  optim::SGD sgd({.learning_rate = 1});
  auto step = strategy.function([&](const Tensor& x) {
    if (const auto total = gradients.add({{x, weights}})) sgd.apply_gradients(*total);
  });
  const auto call = [&](float x) { step(Tensor::full({2}, x, DType::f32, TestBackend::device(0))); };
  for (const float x : {1.0f, 2.0f}) call(x);  // the state of each is met for the first time
  {
    const CallHook hook = CallHook::failing("cudaGraphLaunch", kCudaErrorUnknown);
    REQUIRE_THROWS_AS(call(100), DeviceError);
  }
  for (const float x : {4.0f, 8.0f, 16.0f, 32.0f}) call(x);
  optim::SGD plain_sgd({.learning_rate = 1});
  optim::GradientAccumulator plain_gradients(2);
  Variable plain = strategy.make_variable(Tensor::ones({2}));
  for (const float x : {1.0f, 2.0f, 4.0f, 8.0f, 16.0f, 32.0f})
    strategy.run([&] {
      if (const auto total = plain_gradients.add({{Tensor::full({2}, x), plain}}))
        plain_sgd.apply_gradients(*total);
    });
  REQUIRE(weights.value().to_vector<float>() == plain.value().to_vector<float>());
}

TEST_CASE("what a graph updates stays where launches find it, also while its value is held",
          "[cuda][function]") {
  Replicas strategy(1);
  const auto momentum = [] { return optim::Momentum({.learning_rate = 0.5, .momentum = 0.5}); };
  optim::Momentum traced = momentum(), plain = momentum();
  Variable weights = strategy.make_variable(Tensor::ones({2}));
  Variable plain_weights = strategy.make_variable(Tensor::ones({2}));
  auto step = strategy.function([&] { traced.apply_gradients({{Tensor::ones({2}), weights}}); });
  const auto both = [&] {
    step();
    strategy.run([&] { plain.apply_gradients({{Tensor::ones({2}), plain_weights}}); });
    REQUIRE(weights.value().to_vector<float>() == plain_weights.value().to_vector<float>());
  };
  for (int call = 0; call < 3; ++call) both();
  Variable slot = traced.variables().at(1).second, plain_slot = plain.variables().at(1).second;
  const Tensor held = slot.value(), held_weights = weights.value();
  const Values slot_before = held.to_vector<float>(), weights_before = held_weights.to_vector<float>();
  both();
  REQUIRE(held.to_vector<float>() == slot_before);
  REQUIRE(held_weights.to_vector<float>() == weights_before);
  const Tensor held_again = slot.value();
  for (Variable* const one : {&slot, &plain_slot}) one->assign(Tensor::full({2}, 100.0f));
  both();
  both();
}

TEST_CASE("a graph has numbers for so many steps of optimizers", "[cuda][function]") {
  Replicas strategy(1);
  Variable weights = strategy.make_variable(Tensor::ones({2}));
  optim::SGD sgd({.learning_rate = 0.5});
  auto step = strategy.function([&] {
    for (int k = 0; k < 40; ++k) sgd.apply_gradients({{Tensor::ones({2}), weights}});
  });
  step();
  REQUIRE_THROWS_MATCHES(step(), Unsupported, says("steps of optimizers than 2", "Make fewer"));
  REQUIRE(sgd.iterations().value().item<std::int64_t>() == 40);
}

TEST_CASE("graphs are not launched where collectives have failed", "[cuda][function]") {
  if (num_gpus() < 2) SKIP("needs NCCL");
  Replicas strategy(num_gpus(), {.implementation = CommunicationImplementation::nccl});
  const auto step = [](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, x); };
  auto traced = strategy.function(step);
  const auto x = strategy.run([] { return Tensor::ones({2}); });
  for (int call = 0; call < 3; ++call) traced(x);
  {
    const CallHook hook = CallHook::failing("ncclAllReduce", 3);
    REQUIRE_THROWS_AS(strategy.run(step, x), CollectiveError);
  }
  REQUIRE_THROWS_MATCHES(traced(x), CollectiveAborted, says("function", "failed before", "new strategy"));
}

}  // namespace lockstep::test
