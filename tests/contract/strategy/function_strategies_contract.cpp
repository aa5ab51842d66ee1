#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/function_calls.hpp"
#include "support/matchers.hpp"
#include "support/mesh.hpp"
#include "support/replica_values.hpp"
#include "support/scoped_log_sink.hpp"

/// Functions of strategies other than MirroredStrategy: what they give is what run gives, by the same rules.
namespace lockstep::test {
namespace {

bool captures() { return TestBackend::capabilities().capture; }

/// The log's lines about calls without graphs, while it lives.
class ToldWithoutGraphs {
 public:
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
  ScopedLogSink sink_{[this](std::string_view line) {
    if (line.find("without graphs") != line.npos) lines_.emplace_back(line);
  }};
};

/// A step that reads values from its second call on.
void require_rules(Strategy& strategy, const PerReplica<Tensor>& x) {
  auto step = strategy.function([](const Tensor& one) { static_cast<void>(sum(one).item<float>()); });
  step(x);
  for (int call = 0; call < 2; ++call)
    REQUIRE_THROWS_MATCHES(step(x), ContextError, says("Reading the values of", "traced step"));
}

}  // namespace

TEST_CASE("a function of a mesh works on the logical devices of each replica", "[strategy][function][mesh]") {
  const auto [replicas, cores] = GENERATE(std::pair(1, 2), std::pair(2, 2), std::pair(1, 3));
  if (replicas * cores > TestBackend::num_devices()) SKIP("needs more devices");
  Mesh mesh(replicas, cores);
  const int last = cores - 1;
  const auto make = [&](float value) {
    const auto guard = mesh.extended().logical_device(last);
    return mesh.make_variable(Tensor::full({5}, value), {.aggregation = VariableAggregation::mean});
  };
  Variable traced_weights = make(2), run_weights = make(2);
  const auto step = [last](ReplicaContext& ctx, const Tensor& x, Variable weights) {
    const Tensor here = x + 1.0f;
    Tensor there;
    {
      const auto guard = ctx.logical_device(last);
      there = here.to(ctx.device()) * weights.value();
      there = ctx.all_reduce(ReduceOp::sum, there);
      weights.assign_add(there);
    }
    return std::tuple{there.to(ctx.device()) - here, there};
  };
  auto traced = mesh.function(step);
  const ToldWithoutGraphs told;
  for (int call = 0; call < 2 * kCalls; ++call) {
    std::vector<Tensor> parts;
    for (int i = 0; i < replicas; ++i)
      parts.push_back(Tensor::full({5}, static_cast<float>(call + i) * 0.25f, DType::f32,
                                   logical_devices(mesh, 0)[static_cast<std::size_t>(i)]));
    const PerReplica x(std::move(parts));
    const auto [here, there] = traced(x, traced_weights);
    const auto [own_here, own_there] = mesh.run(step, x, run_weights);
    REQUIRE(all_values(here) == all_values(own_here));
    REQUIRE(all_values(there) == all_values(own_there));
    REQUIRE(here[0].device() == logical_devices(mesh, 0)[0]);
    REQUIRE(there[0].device() == logical_devices(mesh, last)[0]);
    REQUIRE(traced_weights.value().to_vector<float>() == run_weights.value().to_vector<float>());
  }
  REQUIRE(traced.num_traces() == 1);
  REQUIRE(told.lines().empty());
}

TEST_CASE("a function of a mesh tells the caller's logical devices apart", "[strategy][function][mesh]") {
  if (TestBackend::num_devices() < 2) SKIP("needs two devices");
  Mesh mesh(1, 2);
  auto step = mesh.function([](ReplicaContext& ctx) { return Tensor::ones({2}, DType::f32, ctx.device()); });
  for (int call = 0; call < kCalls; ++call)
    for (const int core : {0, 1}) {
      const auto guard = mesh.extended().logical_device(core);
      REQUIRE(step()[0].device() == logical_devices(mesh, core)[0]);
    }
  REQUIRE(step.num_traces() == 2);
}

TEST_CASE("a function of a mesh keeps the rules", "[strategy][function][mesh]") {
  if (TestBackend::num_devices() < 2) SKIP("needs two devices");
  Mesh mesh(1, 2);
  require_rules(mesh, batch(1, 0));
}

TEST_CASE("a function trains with central storage", "[strategy][function][central]") {
  const int n = some_replicas();
  const bool is_on_host = GENERATE(false, true);
  const Device parameters = is_on_host ? Device("CPU:9") : TestBackend::device(0);
  const ToldWithoutGraphs told;
  struct Training {
    Training(int num_replicas, const Device& device)
        : strategy(TestBackend::devices(num_replicas), device),
          weights(strategy.make_variable(Tensor::full({5}, 2.0f))) {}
    Tensor step(ReplicaContext& ctx, const Tensor& x) {
      const Tensor y = x * weights.value();
      adam.apply_gradients({{y, weights}});
      return ctx.all_reduce(ReduceOp::sum, y);
    }
    CentralStorageStrategy strategy;
    Variable weights;
    optim::Adam adam{{.learning_rate = optim::LearningRate::cosine_decay({.peak = 0.1, .num_steps = 50})}};
  };
  Training plain(n, parameters), traced(n, parameters);
  auto step =
      traced.strategy.function([&](ReplicaContext& ctx, const Tensor& x) { return traced.step(ctx, x); });
  for (int call = 0; call < 2 * kCalls; ++call) {
    const auto x = batch(n, call);
    const auto y = step(x);
    const auto own =
        plain.strategy.run([&](ReplicaContext& ctx, const Tensor& one) { return plain.step(ctx, one); }, x);
    REQUIRE(all_values(y) == all_values(own));
    REQUIRE(traced.weights.value().to_vector<float>() == plain.weights.value().to_vector<float>());
  }
  require_rules(traced.strategy, batch(n, 0));
  if (captures() && is_on_host) {
    REQUIRE(told.lines().size() == 2);  // one for each function
    REQUIRE_THAT(std::runtime_error(told.lines()[0]),
                 says("CentralStorageStrategy's calls", "variables are on the host"));
  } else {
    REQUIRE(told.lines().empty());
  }
}

TEST_CASE("a function with explicit CrossDeviceOps keeps the rules, without a graph",
          "[strategy][function]") {
  const int n = some_replicas();
  MirroredStrategy strategy(TestBackend::devices(n), std::make_unique<ReductionToOneDevice>());
  const ToldWithoutGraphs told;
  auto step = strategy.function(
      [](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, x); });
  for (int call = 0; call < kCalls; ++call) {
    float expected = 0;
    for (int i = 0; i < n; ++i) expected += static_cast<float>(10 * call + i + 1);
    REQUIRE(step(batch(n, call))[0].to_vector<float>() == Values(5, expected));
  }
  REQUIRE(told.lines().size() == (captures() ? 1 : 0));
  require_rules(strategy, batch(n, 0));
}

TEST_CASE("a function of the default strategy keeps the rules", "[strategy][function]") {
  const DeviceScope here(TestBackend::device());
  const ToldWithoutGraphs told;
  require_rules(get_strategy(), batch(1, 0));
  REQUIRE(told.lines().size() == (captures() ? 1 : 0));
}

}  // namespace lockstep::test
