#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

TEMPLATE_TEST_CASE("a moved-from distributed value says so", "[values][host]", PerReplica<Tensor>,
                   Mirrored<Tensor>) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const Tensor one = Tensor::scalar(1.0f);
  TestType value({one, one});
  const TestType taken = std::move(value);
  REQUIRE(taken.size() == 2);
  const auto moved = says(detail::is_mirrored<TestType>::value ? "Mirrored: used after it was moved from"
                                                               : "PerReplica: used after",
                          "Use what it was moved to");
  CHECK_THROWS_MATCHES(value.size(), ContextError, moved);
  CHECK_THROWS_MATCHES(value[0], ContextError, moved);
  CHECK_THROWS_MATCHES(value.begin(), ContextError, moved);
  CHECK_THROWS_MATCHES(value.end(), ContextError, moved);
  CHECK_THROWS_MATCHES(value.is_same_object(), ContextError, moved);
  CHECK_THROWS_MATCHES(Tensor(value), ContextError, moved);
  CHECK_THROWS_MATCHES(strategy.reduce(ReduceOp::mean, value), ContextError, moved);
  CHECK_THROWS_MATCHES(strategy.gather(value, 0), ContextError, moved);
  CHECK_THROWS_MATCHES(strategy.local_results(value), ContextError, moved);
  CHECK_THROWS_MATCHES(strategy.run([](const Tensor& t) { return t; }, value), ContextError, moved);
  CHECK_THROWS_MATCHES(strategy.extended().reduce_to(ReduceOp::mean, one, value), ContextError, moved);
  CHECK_THROWS_MATCHES(strategy.extended().reduce_to(ReduceOp::mean, value, "CPU:0"), ContextError, moved);
  CHECK_THROWS_MATCHES(optim::Gradient(value), ContextError, moved);
  value = taken;  // as new
  CHECK(value.size() == 2);
}

TEST_CASE("other moved-from values say so", "[values][host]") {
  const Tensor one = Tensor::ones({2});
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  ReduceValue value(one);
  const ReduceValue taken = std::move(value);
  CHECK_THROWS_MATCHES(value.tensors(), ContextError, says("ReduceValue: used after it was moved from"));
  CHECK_THROWS_MATCHES(value.num_components(), ContextError, says("ReduceValue"));
  CHECK_THROWS_MATCHES(strategy.extended().reduce_to(ReduceOp::mean, value, "CPU:0"), ContextError,
                       says("ReduceValue"));
  Destination destination("CPU:0");
  const Destination kept = std::move(destination);
  CHECK_THROWS_MATCHES(strategy.extended().broadcast_to(one, destination), ContextError,
                       says("Destination: used after it was moved from"));
  ShardedTensor sharded = ShardedTensor::replicate(one, {"CPU:0"});
  const ShardedTensor whole = std::move(sharded);
  const auto moved = says("ShardedTensor: used after it was moved from");
  CHECK_THROWS_MATCHES(sharded.value(), ContextError, moved);
  CHECK_THROWS_MATCHES(sharded.shape(), ContextError, moved);
  CHECK_THROWS_MATCHES(sharded.dims(), ContextError, moved);
  CHECK_THROWS_MATCHES(sharded.dtype(), ContextError, moved);
  CHECK_THROWS_MATCHES(sharded.shard(0), ContextError, moved);
  CHECK_THROWS_MATCHES(sharded.num_shards(), ContextError, moved);
  CHECK(whole.num_shards() == 1);
}

namespace {

/// Counts its copies.
struct Counted {
  std::shared_ptr<int> copies = std::make_shared<int>(0);
  Counted() = default;
  Counted(const Counted& other) : copies(other.copies) { ++*copies; }
  Counted(Counted&&) = default;
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) = default;
};

}  // namespace

TEST_CASE("results are moved into values, at any depth", "[values][host]") {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto [one, list] = strategy.run([] {
    std::vector<Counted> many(3);
    return std::pair(Counted(), std::move(many));
  });
  for (const Counted& counted : one) CHECK(*counted.copies == 0);
  for (const PerReplica<Counted>& counted : list) CHECK(*counted[1].copies == 0);
}
