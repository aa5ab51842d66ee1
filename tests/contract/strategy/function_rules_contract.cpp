#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/function_calls.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// What a traced step may not do, and its exceptions.
namespace lockstep::test {

TEST_CASE("a traced step cannot look at values", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  bool looks = true;
  using Look = std::function<void(ReplicaContext&, const Tensor&)>;
  const Look looks_at[] = {
      [](ReplicaContext&, const Tensor& x) { static_cast<void>(sum(x).item<float>()); },
      [](ReplicaContext&, const Tensor& x) { static_cast<void>(x.to_vector<float>()); },
      [](ReplicaContext& ctx, const Tensor& x) {
        ctx.merge_call(
            [](Strategy&, const PerReplica<Tensor>& all) { static_cast<void>(all[0].to_vector<float>()); },
            x);
      }};
  const Look& look = looks_at[GENERATE(0, 1, 2)];
  auto step = strategy.function([&](ReplicaContext& ctx, const Tensor& x) {
    const Tensor twice = x * 2.0f;
    if (looks) look(ctx, twice);
    return ctx.all_reduce(ReduceOp::sum, twice);
  });
  float expected = 0;
  for (int i = 0; i < n; ++i) expected += static_cast<float>(2 * (i + 1));
  REQUIRE(step(batch(n, 0))[0].to_vector<float>() == Values(5, expected));  // the first call is as run
  for (int call = 0; call < 2; ++call)
    REQUIRE_THROWS_MATCHES(step(batch(n, 0)), ContextError,
                           says("Reading the values of", "traced step", "Return the tensor"));
  looks = false;
  for (int call = 0; call < kCalls; ++call)
    REQUIRE(step(batch(n, 0))[0].to_vector<float>() == Values(5, expected));
}

TEST_CASE("a traced step cannot wait", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  const bool waits_for_event = GENERATE(false, true);
  auto step = strategy.function([&](ReplicaContext& ctx) {
    const StreamRef stream = current_stream(ctx.device());
    if (!waits_for_event) return stream.synchronize();
    const Event event(ctx.device());
    event.record(stream);
    event.synchronize();
  });
  step();
  REQUIRE_THROWS_MATCHES(step(), ContextError, says("Waiting for", "traced step", "after the call"));
}

TEST_CASE("a traced step makes no variables, but its first call does", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  std::vector<std::optional<Variable>> made(static_cast<std::size_t>(n));
  bool makes_more = false;
  auto step = strategy.function([&](ReplicaContext& ctx, const Tensor& x) {
    auto& mine = made[static_cast<std::size_t>(ctx.local_index())];
    if (!mine) mine.emplace(Tensor::full({5}, 2.0f), VariableOptions{.name = "made"});
    if (makes_more) Variable(Tensor::ones({5}), {.name = "another"});
    return x * mine->value();
  });
  REQUIRE(step(batch(n, 0))[0].to_vector<float>() == Values(5, 2));
  makes_more = true;
  REQUIRE_THROWS_MATCHES(step(batch(n, 1)), ContextError, says("'another'", "traced step", "first call"));
  makes_more = false;
  for (int call = 0; call < kCalls; ++call)
    REQUIRE(step(batch(n, call))[0].to_vector<float>() == Values(5, static_cast<float>(2 * (10 * call + 1))));
}

TEST_CASE("the arguments of a function are read-only", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  std::atomic<int> call = 0;
  const int writes_in = GENERATE(0, 1);
  auto step = strategy.function([&](Tensor x) {
    if (call == writes_in) x.add_(1);
    return x * 1.0f;
  });
  const auto x = batch(n, 0);
  for (; call < 2; ++call) {
    if (call == writes_in)
      REQUIRE_THROWS_MATCHES(step(x), InvalidArgument, says("add_", "read-only", "clone()"));
    else
      step(x);
  }
  REQUIRE(x[0].to_vector<float>() == Values(5, 1));
}

TEST_CASE("an exception ends a call in any phase, and the next one works", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  Variable count = strategy.make_variable(Tensor::zeros({2}), {.aggregation = VariableAggregation::sum});
  int failing = -1;
  auto step = strategy.function([&](ReplicaContext& ctx, const Tensor& x) {
    const Tensor total = ctx.all_reduce(ReduceOp::sum, x);
    if (ctx.local_index() == failing) throw std::runtime_error("failed");
    count.assign_add(ctx.all_reduce(ReduceOp::mean, Tensor::ones({2})));
    return total + 0.0f;
  });
  const auto check = [&](int call, int num_counted) {
    float expected = 0;
    for (int i = 0; i < n; ++i) expected += static_cast<float>(10 * call + i + 1);
    REQUIRE(step(batch(n, call))[n - 1].to_vector<float>() == Values(5, expected));
    REQUIRE(count.value().to_vector<float>() == Values(2, static_cast<float>(num_counted * n)));
  };
  const int phase = GENERATE(0, 1);
  int counted = 0;
  for (; counted < phase; ++counted) check(counted, counted + 1);
  for (failing = 0; failing < n; ++failing) {
    REQUIRE_THROWS_MATCHES(step(batch(n, 5)), std::runtime_error, says("failed"));
    REQUIRE(strategy.last_failures().size() == 1);
    REQUIRE(strategy.last_failures()[0].replica == failing);
  }
  REQUIRE(count.value().to_vector<float>() == Values(2, static_cast<float>(counted * n)));
  for (int call = 0; call < kCalls; ++call) check(call, ++counted);
  REQUIRE(strategy.last_failures().empty());
  REQUIRE_THROWS_MATCHES(
      step(PerReplica(std::vector<Tensor>(static_cast<std::size_t>(n) + 1, Tensor::ones({5})))),
      InvalidArgument, says("function", std::to_string(n + 1)));
  check(7, ++counted);
}

}  // namespace lockstep::test
