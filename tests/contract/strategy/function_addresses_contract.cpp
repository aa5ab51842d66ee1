#include <algorithm>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/function_calls.hpp"
#include "support/replica_values.hpp"

/// FunctionOptions::takes_addresses.
namespace lockstep::test {

TEST_CASE("a function that takes addresses reads what its caller writes in place", "[strategy][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  auto step = strategy.function(
      [](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, x * 2.0f); },
      {.takes_addresses = true});
  const auto fill = [&](const PerReplica<Tensor>& values, float value) {
    for (int i = 0; i < n; ++i) Tensor(values[i]).fill_(value + static_cast<float>(i));
  };
  const auto sum = [&](float value) {
    return Values(5, 2 * (static_cast<float>(n) * value + static_cast<float>(n * (n - 1) / 2)));
  };
  const auto x = batch(n, 0);
  for (int call = 0; call < 2 * kCalls; ++call) {
    const auto value = static_cast<float>(call);
    fill(x, value);
    const auto results = step(x);
    fill(x, -100);  // the launch has read it, in the order of the stream
    REQUIRE(all_values(results) == std::vector<Values>(static_cast<std::size_t>(n), sum(value)));
  }
  REQUIRE(step.num_traces() == 1);
  {
    const auto elsewhere = batch(n, 0);
    for (int call = 0; call < kCalls; ++call) {
      fill(elsewhere, 7);
      REQUIRE(step(elsewhere)[0].to_vector<float>() == sum(7));
    }
    REQUIRE(step.num_traces() == 2);
  }
  const auto fresh = batch(n, 0);  // not where a trace keeps what it reads
  fill(fresh, 3);
  REQUIRE(step(fresh)[0].to_vector<float>() == sum(3));
  REQUIRE(step.num_traces() == 3);
  fill(x, 1);
  REQUIRE(step(x)[0].to_vector<float>() == sum(1));
}

TEST_CASE("a function that takes addresses tells strides apart", "[strategy][function]") {
  Replicas strategy(1);
  auto step = strategy.function([](const Tensor& x) { return x + 1.0f; }, {.takes_addresses = true});
  const Tensor x = Tensor::from<float>({0, 1, 2, 3}, {2, 2}, TestBackend::device());
  const Tensor row = x.slice(0, 1).reshape({2, 1}), column = x.narrow(1, 0, 1);  // they begin at one place
  for (int call = 0; call < kCalls; ++call) {
    REQUIRE(step(row)[0].to_vector<float>() == Values{1, 2});
    REQUIRE(step(column)[0].to_vector<float>() == Values{1, 3});
  }
  REQUIRE(step.num_traces() == 2);
}

}  // namespace lockstep::test
