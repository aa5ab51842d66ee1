#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/function_calls.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/scoped_log_sink.hpp"

/// Strategy::function: its calls, its signatures, and its errors.
namespace lockstep::test {

TEST_CASE("a function gives what run gives, call after call", "[strategy][function]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto step = [](ReplicaContext& ctx, const Tensor& x, const Tensor& y) {
    const Tensor product = x * y + 1.0f;
    return std::tuple{product, ctx.all_reduce(ReduceOp::sum, sum(product)),
                      std::map<std::string, Tensor>{{"mean", ctx.all_reduce(ReduceOp::mean, x)}}};
  };
  auto traced = strategy.function(step);
  for (int call = 0; call < 2 * kCalls; ++call) {
    const auto x = batch(n, call), y = batch(n, call % 3);
    const auto [product, total, others] = traced(x, y);
    const auto [own_product, own_total, own_others] = strategy.run(step, x, y);
    REQUIRE(all_values(product) == all_values(own_product));
    REQUIRE(items<float>(total) == items<float>(own_total));
    REQUIRE(all_values(others.at("mean")) == all_values(own_others.at("mean")));
  }
  REQUIRE(traced.num_traces() == 1);
}

TEST_CASE("a function takes what run takes", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  Variable weight = strategy.make_variable(Tensor::full({5}, 2.0f));
  auto nothing = strategy.function([](ReplicaContext&) {});
  auto step = strategy.function(
      [](const std::tuple<Tensor, Tensor>& both) { return std::get<0>(both) + std::get<1>(both); });
  auto members = strategy.function([](ReplicaContext&, const Tensor& x, Tensor y) { return x - y; });
  auto of_variable =
      strategy.function([](const Variable& v, const Tensor& x, float by, const std::string& name) {
        return std::vector<Tensor>(name.size(), v.value() * x * by);
      });
  for (int call = 0; call < kCalls; ++call) {
    nothing();
    const auto x = batch(n, call), y = batch(n, 1);
    const std::tuple both(x, y);
    REQUIRE(all_values(step(both))[0] == Values(5, static_cast<float>(10 * call + 1 + 11)));
    REQUIRE(all_values(members(both))[0] == Values(5, static_cast<float>(10 * call + 1 - 11)));
    const auto list = of_variable(weight, x, 3.0f, "ab");
    REQUIRE(list.size() == 2);
    REQUIRE(all_values(list[1])[0] == Values(5, static_cast<float>(6 * (10 * call + 1))));
  }
}

TEST_CASE("a function returns a variable, nothing, and one tensor in two places", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  Variable weight = strategy.make_variable(Tensor::ones({2}));
  auto step = strategy.function([&](const Tensor& x) {
    const Tensor twice = x * 2.0f;
    return std::tuple{weight, twice, twice, Tensor(), Tensor::zeros({0, 3})};
  });
  for (int call = 0; call < kCalls; ++call) {
    const auto [variable, first, second, none, no_rows] = step(batch(n, call));
    REQUIRE(variable == weight);
    REQUIRE(all_values(first) == all_values(second));
    REQUIRE(first[0].is_same_object(second[0]));
    REQUIRE(!none[0].defined());
    REQUIRE(no_rows[0].shape() == Shape{0, 3});
  }
}

TEST_CASE("results of a function are fresh", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  auto step = strategy.function([](const Tensor& x) { return x * 2.0f; });
  std::vector<PerReplica<Tensor>> results;
  for (int call = 0; call < 12; ++call) results.push_back(step(batch(n, call)));
  for (int call = 0; call < 12; ++call)
    for (int i = 0; i < n; ++i)
      REQUIRE(results[static_cast<std::size_t>(call)][i].to_vector<float>() ==
              Values(5, static_cast<float>(2 * (10 * call + i + 1))));
  Tensor mine = results.back()[0];
  mine.fill_(-1);  // they are the caller's
  const auto next = step(batch(n, 0));
  REQUIRE(next[0].to_vector<float>() == Values(5, 2));
  REQUIRE(mine.to_vector<float>() == Values(5, -1));
}

TEST_CASE("a function's result is not moved by the next call, whatever the caller has dropped",
          "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  auto step = strategy.function([](const Tensor& x) { return x + 1.0f; });
  std::optional<PerReplica<Tensor>> kept;
  for (int call = 0; call < 20; ++call) {
    if (call % 3 == 0) kept.reset();
    const auto result = step(batch(n, call));
    if (!kept) kept = result;
    const int at = call / 3 * 3;
    REQUIRE((*kept)[0].to_vector<float>() == Values(5, static_cast<float>(10 * at + 2)));
  }
}

TEST_CASE("a function traces each signature anew, and keeps the traces", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  std::atomic<int> runs = 0;
  auto step = strategy.function([&](const auto& x, int by) {
    ++runs;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(x)>, Tensor>)
      return x * static_cast<float>(by);
    else
      return x.at(0) * static_cast<float>(by);
  });
  const auto check = [&](const auto& result, float expected) {
    REQUIRE(result[0].template to_vector<float>()[0] == expected);
  };
  for (int call = 0; call < kCalls; ++call) {
    const float first = static_cast<float>(10 * call + 1);
    check(step(batch(n, call), 2), 2 * first);
    check(step(batch(n, call, 7), 2), 2 * first);                            // a shape
    check(step(batch(n, call), 3), 3 * first);                               // a number
    check(step(std::vector{batch(n, call)}, 2), 2 * first);                  // a type
    check(step(std::vector{batch(n, call), batch(n, call)}, 2), 2 * first);  // a structure
    const auto doubles = strategy.run([](const Tensor& x) { return x.cast(DType::f16); }, batch(n, call));
    REQUIRE(step(doubles, 2)[0].cast(DType::f32).template to_vector<float>()[0] == 2 * first);  // a dtype
  }
  REQUIRE(step.num_traces() == 6);
  if (TestBackend::capabilities().capture) REQUIRE(runs == 6 * 2 * n);  // a launch calls nothing
}

TEST_CASE("a function tells variables apart", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  auto step = strategy.function([](Variable v) { return v.assign_add(Tensor::ones({2})).value() * 1.0f; });
  Variable first = strategy.make_variable(Tensor::zeros({2}), {.aggregation = VariableAggregation::mean});
  Variable second =
      strategy.make_variable(Tensor::full({2}, 10.0f), {.aggregation = VariableAggregation::mean});
  for (int call = 0; call < kCalls; ++call) {
    REQUIRE(step(first)[0].to_vector<float>() == Values(2, static_cast<float>(call + 1)));
    REQUIRE(step(second)[0].to_vector<float>() == Values(2, static_cast<float>(call + 11)));
  }
  REQUIRE(step.num_traces() == 2);
}

TEST_CASE("beyond its limit of traces a function runs without, and the log tells once",
          "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  auto step = strategy.function([](const Tensor& x, int by) { return x * static_cast<float>(by); },
                                {.max_traces = 2});
  std::vector<std::string> lines;
  {
    const ScopedLogSink sink([&lines](std::string_view line) { lines.emplace_back(line); });
    for (int call = 0; call < kCalls; ++call)
      for (const int by : {1, 2, 3, 4})
        REQUIRE(step(batch(n, call), by)[0].to_vector<float>() ==
                Values(5, static_cast<float>((10 * call + 1) * by)));
  }
  REQUIRE(step.num_traces() == 2);
  REQUIRE(lines.size() == 1);
  REQUIRE_THAT(std::runtime_error(lines[0]), says("function", "2 traces", "limit", "max_traces"));
}

TEST_CASE("a function refuses a limit below 1", "[strategy][function]") {
  Replicas strategy(1);
  REQUIRE_THROWS_MATCHES(strategy.function([] {}, {.max_traces = 0}), InvalidArgument,
                         says("function", "max_traces is 0", "at least 1"));
}

TEST_CASE("clear drops the traces of a function, which traces anew", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  float by = 2;
  auto step = strategy.function([&](const Tensor& x) { return x * by; });
  for (int call = 0; call < kCalls; ++call) step(batch(n, call));
  const auto held = step(batch(n, 1));
  step.clear();
  REQUIRE(step.num_traces() == 0);
  by = 3;
  for (int call = 0; call < kCalls; ++call)
    REQUIRE(step(batch(n, call))[0].to_vector<float>() == Values(5, static_cast<float>(3 * (10 * call + 1))));
  REQUIRE(held[0].to_vector<float>() == Values(5, 22));
  REQUIRE(step.num_traces() == 1);
}

TEST_CASE("clear is refused in a function's call", "[strategy][function]") {
  Replicas strategy(some_replicas());
  std::optional<Function<std::function<void()>>> step;
  step.emplace(strategy.function(std::function<void()>([&] {
    if (get_replica_context()->local_index() == 0) step->clear();
  })));
  REQUIRE_THROWS_MATCHES((*step)(), ContextError, says("clear of a function", "after the call"));
}

TEST_CASE("a function reads and writes variables", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  Variable weights = strategy.make_variable(Tensor::ones({5}));
  Variable total = strategy.make_variable(
      Tensor::zeros({}),
      {.synchronization = VariableSynchronization::on_read, .aggregation = VariableAggregation::sum});
  auto step = strategy.function([&](ReplicaContext& ctx, const Tensor& x) {
    total.assign_add(sum(x * weights.value()));
    ctx.merge_call(
        [&](Strategy& own) { own.extended().update(weights, [](Tensor& local) { local.mul_(2); }); });
  });
  float weight = 1, expected = 0;
  for (int call = 0; call < 2 * kCalls; ++call) {
    step(batch(n, call));
    for (int i = 0; i < n; ++i) expected += 5 * weight * static_cast<float>(10 * call + i + 1);
    weight *= 2;
    if (call == kCalls) weights.assign(weight = 3);  // a launch finds what was written meanwhile
    REQUIRE(total.value().item<float>() == expected);
    REQUIRE(weights.value().to_vector<float>() == Values(5, weight));
  }
  for (const Tensor& component : strategy.local_results(weights))
    REQUIRE(component.to_vector<float>() == Values(5, weight));
}

TEST_CASE("a function reads a variable before it writes it, and holds what it has read",
          "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  Variable count = strategy.make_variable(Tensor::zeros({2}), {.aggregation = VariableAggregation::mean});
  auto step = strategy.function([&] {
    const Tensor before = count.value();
    count.assign_add(Tensor::ones({2}));
    return std::tuple{before, count.value() - before};
  });
  for (int call = 0; call < 2 * kCalls; ++call) {
    const auto [before, difference] = step();
    REQUIRE(before[0].to_vector<float>() == Values(2, static_cast<float>(call)));
    REQUIRE(difference[0].to_vector<float>() == Values(2, 1));
  }
}

TEST_CASE("a function tells calls in a sync_on_read guard apart", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  Variable total = strategy.make_variable(
      Tensor::ones({}),
      {.synchronization = VariableSynchronization::on_read, .aggregation = VariableAggregation::sum});
  strategy.run([&] { total.assign(1); });
  auto step = strategy.function([&] { return total.value() * 1.0f; });
  for (int call = 0; call < kCalls; ++call) {
    REQUIRE(items<float>(step()) == Values(static_cast<std::size_t>(n), 1));
    const sync_on_read synced;
    REQUIRE(items<float>(step()) == Values(static_cast<std::size_t>(n), static_cast<float>(n)));
  }
}

TEST_CASE("a function may outlive its strategy, and its results both", "[strategy][function]") {
  const int n = some_replicas();
  const int calls = GENERATE(1, 2, 3);
  std::optional<Replicas> strategy(std::in_place, n);
  const auto fn = [](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, x); };
  std::optional<Function<std::decay_t<decltype(fn)>>> step(strategy->function(fn));
  std::optional<PerReplica<Tensor>> result;
  for (int call = 0; call < calls; ++call) result = (*step)(batch(n, call));
  const auto copy = *step;
  SECTION("the strategy goes first") {
    strategy.reset();
    REQUIRE_THROWS_MATCHES((*step)(batch(n, 0)), ContextError,
                           says("function", "has been destroyed", "Keep a strategy"));
    step->clear();
    step.reset();
  }
  SECTION("the function goes first") {
    step.reset();
    strategy.reset();
  }
  float expected = 0;
  for (int i = 0; i < n; ++i) expected += static_cast<float>(10 * (calls - 1) + i + 1);
  REQUIRE((*result)[0].to_vector<float>() == Values(5, expected));
}

TEST_CASE("threads may call one function", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  Variable count = strategy.make_variable(Tensor::scalar(0.0f), {.aggregation = VariableAggregation::mean});
  auto step = strategy.function([&](const Tensor& x) {
    count.assign_add(Tensor::scalar(1.0f));
    return x * 2.0f;
  });
  constexpr int kRounds = 5;
  std::vector<std::vector<PerReplica<Tensor>>> results(3);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < kRounds; ++round)
          results[static_cast<std::size_t>(t)].push_back(step(batch(n, 10 * t + round)));
      });
  }
  for (int t = 0; t < 3; ++t)
    for (int round = 0; round < kRounds; ++round)
      REQUIRE(results[static_cast<std::size_t>(t)][static_cast<std::size_t>(round)][0].to_vector<float>() ==
              Values(5, static_cast<float>(2 * (10 * (10 * t + round) + 1))));
  REQUIRE(count.value().item<float>() == 3 * kRounds);
}

TEST_CASE("a function is called where run is", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  auto inner = strategy.function([](const Tensor& x) { return x * 2.0f; });
  REQUIRE_THROWS_MATCHES(strategy.run([&](const Tensor& x) { inner(x); }, batch(n, 0)), ContextError,
                         says("function", "inside replica 0"));
  // In a merge function it is a part of the call around it.
  auto outer = strategy.function([&](ReplicaContext& ctx, const Tensor& x) {
    const auto twice =
        ctx.merge_call([&](Strategy&, const PerReplica<Tensor>& all) { return inner(all); }, x + 1.0f);
    return twice + 0.0f;
  });
  for (int call = 0; call < kCalls; ++call)
    REQUIRE(outer(batch(n, call))[0].to_vector<float>() ==
            Values(5, static_cast<float>(2 * (10 * call + 2))));
}

TEST_CASE("other strategies have functions, too", "[strategy][function]") {
  const Device device = TestBackend::device();
  const auto step = [](const Tensor& x) { return x * 3.0f; };
  const Tensor x = Tensor::ones({4}, DType::f32, device);
  const auto check = [&](auto& function) {
    for (int call = 0; call < kCalls; ++call)
      REQUIRE(function(x)[0].template to_vector<float>() == Values(4, 3));
  };
  OneDeviceStrategy one(device);
  auto of_one = one.function(step);
  check(of_one);
  const DeviceScope here(device);
  auto of_default = get_strategy().function(step);
  check(of_default);
  CentralStorageStrategy central({device}, Device("CPU:0"));
  auto of_central = central.function(step);
  check(of_central);
}

}  // namespace lockstep::test
