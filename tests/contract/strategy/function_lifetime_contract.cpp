#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/function_calls.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/temporary_directory.hpp"

/// Functions that are moved, destroyed, cleared and called at the worst moments, and arguments and results at
/// the edges.
namespace lockstep::test {

TEST_CASE("a function that was moved from is the same function", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  auto step = strategy.function([](const Tensor& x) { return x * 2.0f; });
  step(batch(n, 0));
  auto moved = std::move(step);
  moved(batch(n, 0));
  REQUIRE(step(batch(n, 1))[0].to_vector<float>() == Values(5, 22));  // NOLINT(bugprone-use-after-move)
  REQUIRE(step.num_traces() == 1);
}

TEST_CASE("a function is destroyed while its launches are under way", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  std::vector<PerReplica<Tensor>> results;
  for (int round = 0; round < 4; ++round) {
    auto step = strategy.function(
        [](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::max, x * 2.0f); });
    for (int call = 0; call < kCalls; ++call) results.push_back(step(batch(n, call, 1000)));
    if (round % 2 == 0) step.clear();
  }
  for (std::size_t k = 0; k < results.size(); ++k)
    REQUIRE(results[k][0].to_vector<float>() ==
            Values(1000, static_cast<float>(2 * (10 * (static_cast<int>(k) % kCalls) + n))));
}

TEST_CASE("a thread clears a function that another one calls", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  auto step = strategy.function(
      [](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::max, x + 1.0f); });
  std::atomic<bool> is_over{false};
  std::vector<PerReplica<Tensor>> results;
  {
    std::jthread clears([&] {
      while (!is_over) {
        step.clear();
        std::this_thread::yield();
      }
    });
    for (int call = 0; call < 20; ++call) results.push_back(step(batch(n, call)));
    is_over = true;
  }
  for (int call = 0; call < 20; ++call)
    REQUIRE(results[static_cast<std::size_t>(call)][0].to_vector<float>() ==
            Values(5, static_cast<float>(10 * call + n + 1)));
  for (int call = 0; call < kCalls; ++call) step(batch(n, call));
  REQUIRE(step.num_traces() == 1);
}

TEST_CASE("threads call two functions of one strategy", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  const auto call_often = [&](float by, std::vector<PerReplica<Tensor>>& results) {
    auto step = strategy.function(
        [by](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::max, x * by); });
    for (int call = 0; call < 10; ++call) results.push_back(step(batch(n, call)));
  };
  std::vector<PerReplica<Tensor>> doubled, tripled;
  {
    const std::jthread thread([&] { call_often(2, doubled); });
    call_often(3, tripled);
  }
  for (int call = 0; call < 10; ++call) {
    const auto largest = static_cast<float>(10 * call + n);
    REQUIRE(doubled[static_cast<std::size_t>(call)][0].to_vector<float>() == Values(5, 2 * largest));
    REQUIRE(tripled[static_cast<std::size_t>(call)][0].to_vector<float>() == Values(5, 3 * largest));
  }
}

TEST_CASE("a function calls itself in a merge function, as a part of the call", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  using Step = Function<std::function<Tensor(ReplicaContext&, const Tensor&, int)>>;
  std::optional<Step> step;
  step.emplace(strategy.function(std::function<Tensor(ReplicaContext&, const Tensor&, int)>(
      [&](ReplicaContext& ctx, const Tensor& x, int depth) {
        if (depth == 0) return x + 1.0f;
        return ctx.merge_call(
            [&](Strategy&, const PerReplica<Tensor>& all) { return (*step)(all, depth - 1); }, x * 2.0f);
      })));
  for (int call = 0; call < kCalls; ++call)
    REQUIRE((*step)(batch(n, call), 2)[0].to_vector<float>() ==
            Values(5, static_cast<float>(4 * (10 * call + 1) + 1)));
  REQUIRE(step->num_traces() == 1);
}

TEST_CASE("replicas' arguments have shapes of their own, and none at all", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  auto step = strategy.function([](const Tensor& x, const std::optional<Tensor>& more) {
    return std::tuple{x * 2.0f, sum(x), more ? *more + x : Tensor()};
  });
  const auto ragged = [&](int call, bool is_growing) {
    std::vector<Tensor> parts;
    for (int i = 0; i < n; ++i)
      parts.push_back(Tensor::full({is_growing ? i : n - 1 - i}, static_cast<float>(call + 1), DType::f32,
                                   TestBackend::device(i)));
    return PerReplica(std::move(parts));
  };
  for (int call = 0; call < kCalls; ++call)
    for (const bool is_growing : {true, false}) {
      const auto x = ragged(call, is_growing);
      const auto [twice, total, none] = step(x, std::optional<Tensor>());
      const auto [again, same, sums] = step(x, std::optional(x));
      for (int i = 0; i < n; ++i) {
        const auto size = static_cast<std::size_t>(is_growing ? i : n - 1 - i);
        const auto value = static_cast<float>(call + 1);
        REQUIRE(twice[i].to_vector<float>() == Values(size, 2 * value));
        REQUIRE(total[i].item<float>() == static_cast<float>(size) * value);
        REQUIRE_FALSE(none[i].defined());
        REQUIRE(sums[i].to_vector<float>() == Values(size, 2 * value));
      }
    }
}

TEST_CASE("what a function returns of its arguments and variables is the caller's own",
          "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  Variable count = strategy.make_variable(Tensor::zeros({5}), {.aggregation = VariableAggregation::mean});
  auto step = strategy.function([&](const Tensor& x) {
    count.assign_add(Tensor::ones({5}));
    return std::tuple{x, x.slice(1, 3), count.value()};
  });
  std::vector<PerReplica<Tensor>> counts;  // which keep no trace from being made
  for (int call = 0; call < 2 * kCalls; ++call) {
    const auto x = batch(n, call);
    const auto value = static_cast<float>(10 * call + 1);
    const auto [same, part, counted] = step(x);
    for (Tensor mine : {same[0], part[0], counted[0]}) mine.mul_(2);
    REQUIRE(same[0].to_vector<float>() == Values(5, 2 * value));
    REQUIRE(part[0].to_vector<float>() == Values(2, 2 * value));
    REQUIRE(x[0].to_vector<float>() == Values(5, value));
    counts.push_back(counted);
    REQUIRE(count.value().to_vector<float>() == Values(5, static_cast<float>(call + 1)));
  }
  for (int call = 0; call < 2 * kCalls; ++call)
    REQUIRE(counts[static_cast<std::size_t>(call)][0].to_vector<float>() ==
            Values(5, static_cast<float>(2 * (call + 1))));
}

TEST_CASE("a checkpoint is restored between launches", "[strategy][function][checkpoint]") {
  const int n = some_replicas();
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Replicas strategy(n);
  Variable weights = strategy.make_variable(Tensor::full({5}, 2.0f), {.name = "weights"});
  optim::Adam adam({.learning_rate = 0.125});
  auto step = strategy.function([&](const Tensor& x) {
    adam.apply_gradients({{x * weights.value(), weights}});
    return weights.value() * 1.0f;
  });
  const auto train = [&] {
    std::vector<Values> all;
    for (int call = 0; call < 3; ++call) all.push_back(all_values(step(batch(n, call)))[0]);
    return all;
  };
  train();
  std::vector<std::pair<std::string, Variable>> state{{"weights", weights}};
  for (const auto& [name, variable] : adam.variables()) state.emplace_back("adam/" + name, variable);
  Checkpoint checkpoint(state);
  checkpoint.save(path);
  const auto once = train();
  checkpoint.restore(path);
  REQUIRE(train() == once);
  REQUIRE(step.num_traces() == 1);
}

TEST_CASE("a function is not called in another strategy's merge function", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n), other(n);
  auto inner = other.function([](const Tensor& x) { return x * 3.0f; });
  auto outer = strategy.function([&](ReplicaContext& ctx, const Tensor& x) {
    return ctx.merge_call([&](Strategy&, const PerReplica<Tensor>& all) { return inner(all); }, x);
  });
  REQUIRE_THROWS_MATCHES(outer(batch(n, 0)), ContextError, says("function of", "cannot be mixed"));
  REQUIRE(inner(batch(n, 0))[0].to_vector<float>() == Values(5, 3));
}

TEST_CASE("a replica throws while others combine, in any phase, and all is usable", "[strategy][function]") {
  const int n = some_replicas();
  if (n < 2) SKIP("needs two devices");
  const auto implementation =
      GENERATE(CommunicationImplementation::automatic, CommunicationImplementation::nccl);
  Replicas strategy(n, {.implementation = implementation});
  int failing = -1;
  const auto sums = [&](ReplicaContext& ctx, const Tensor& x) {
    if (ctx.local_index() == failing) throw std::runtime_error("failed");
    return ctx.all_reduce(ReduceOp::sum, x) + ctx.all_reduce(ReduceOp::max, x);
  };
  auto step = strategy.function(sums);
  const auto is_right = [&](const PerReplica<Tensor>& result, int call) {
    float expected = static_cast<float>(10 * call + n);
    for (int i = 0; i < n; ++i) expected += static_cast<float>(10 * call + i + 1);
    return result[n - 1].to_vector<float>() == Values(5, expected);
  };
  const int phase = GENERATE(0, 1);
  for (int call = 0; call < phase; ++call) REQUIRE(is_right(step(batch(n, call)), call));
  for (failing = 0; failing < n; ++failing) {
    REQUIRE_THROWS_MATCHES(step(batch(n, 7)), std::runtime_error, says("failed"));
    const int failed = std::exchange(failing, -1);
    REQUIRE(is_right(strategy.run(sums, batch(n, 8)), 8));
    failing = failed;
  }
  failing = -1;
  for (int call = 0; call < kCalls; ++call) REQUIRE(is_right(step(batch(n, call)), call));
  REQUIRE(step.num_traces() == 1);
}

}  // namespace lockstep::test
