#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/world.hpp"

/// all_gather in replicas and gather outside.
namespace lockstep::test {

namespace {

/// [rows, columns] of numbers that tell replica, row and column.
Tensor block(int replica, std::int64_t num_rows, std::int64_t num_columns) {
  std::vector<std::int64_t> values;
  for (std::int64_t row = 0; row < num_rows; ++row)
    for (std::int64_t column = 0; column < num_columns; ++column)
      values.push_back(10'000 * replica + 100 * row + column);
  return Tensor::from(values, {num_rows, num_columns});
}

/// How many rows a replica has: none on some.
std::int64_t num_rows(int replica) { return replica % 3 == 1 ? 0 : replica + 1; }

/// All replicas' blocks, one after the other, along an axis.
Tensor all_blocks(std::int64_t axis) {
  std::vector<Tensor> blocks;
  for (int replica = 0; replica < world().num_replicas; ++replica)
    blocks.push_back(axis == 0 ? block(replica, num_rows(replica), 3) : block(replica, 2, num_rows(replica)));
  return concatenate(blocks, axis);
}

Tensor own_block(int replica, std::int64_t axis) {
  return axis == 0 ? block(replica, num_rows(replica), 3) : block(replica, 2, num_rows(replica));
}

}  // namespace

TEST_CASE("all_gather concatenates uneven rows in the order of global ids", "[workers]") {
  const World& w = world();
  for (const std::int64_t axis : {0, 1, -1, -2}) {
    CAPTURE(axis);
    const auto gathered = w.strategy.run([&](ReplicaContext& ctx) {
      const Tensor all = ctx.all_gather(own_block(ctx.replica_id_in_sync_group(), (axis + 2) % 2), axis);
      return std::pair{all.shape(), all.to_vector<std::int64_t>()};
    });
    const Tensor expected = all_blocks((axis + 2) % 2);
    for (int i = 0; i < w.num_local_replicas; ++i) {
      CHECK(gathered.first[i] == expected.shape());
      CHECK(gathered.second[i] == expected.to_vector<std::int64_t>());
    }
  }
}

TEST_CASE("all_gather of nests, of small and of large tensors has the bits of one process", "[workers]") {
  CHECK(difference_from_one_process([](ReplicaContext& ctx) {
          const int replica = ctx.replica_id_in_sync_group();
          const auto id = static_cast<float>(replica);
          const auto nest = ctx.all_gather(
              std::map<std::string, Tensor>{{"a", Tensor::from<float>({id}, {1})},
                                            {"b", block(replica, num_rows(replica), 5).cast(DType::i16)},
                                            {"c", Tensor::arange(id, id + 70'000.0f)}},
              0);
          return std::vector<Tensor>{nest.at("a"), nest.at("b"), nest.at("c")};
        }) == "");
}

TEST_CASE("all_gather of booleans, and of nothing on every replica", "[workers]") {
  const World& w = world();
  const auto results = w.strategy.run([](ReplicaContext& ctx) {
    const bool is_odd = ctx.replica_id_in_sync_group() % 2 == 1;
    const Tensor flags = ctx.all_gather(Tensor::from<bool>({is_odd, true}, {2}), 0);
    const Tensor nothing = ctx.all_gather(Tensor::zeros({0, 4}), 0);
    return std::pair{flags.to_vector<bool>(), nothing.shape()};
  });
  std::vector<bool> expected;
  for (int replica = 0; replica < w.num_replicas; ++replica) {
    expected.push_back(replica % 2 == 1);
    expected.push_back(true);
  }
  for (int i = 0; i < w.num_local_replicas; ++i) {
    CHECK(results.first[i] == expected);
    CHECK(results.second[i] == Shape{0, 4});
  }
}

TEST_CASE("gather gives every worker all replicas' rows", "[workers]") {
  const World& w = world();
  for (const std::int64_t axis : {0, 1}) {
    CAPTURE(axis);
    const auto own = values([axis](int replica) { return own_block(replica, axis); });
    const Tensor all = w.strategy.gather(own, axis);
    CHECK(difference(all, all_blocks(axis)) == "");
    const auto nest = w.strategy.gather(std::pair{own, own}, axis);
    CHECK(difference(nest.second, all_blocks(axis)) == "");
  }
}

TEST_CASE("gather takes a plain tensor as one contribution of each worker", "[workers]") {
  const World& w = world();
  const Tensor all = w.strategy.gather(block(w.worker, w.worker + 1, 2), 0);
  std::vector<Tensor> expected;
  for (int worker = 0; worker < w.num_workers; ++worker) expected.push_back(block(worker, worker + 1, 2));
  CHECK(difference(all, concatenate(expected, 0)) == "");
}

TEST_CASE("gathers that cannot be are refused on every worker", "[workers]") {
  const World& w = world();
  const auto scalars = values([](int replica) { return Tensor::scalar(replica); });
  const Thrown scalar = thrown_once(w.strategy, [&] { static_cast<void>(w.strategy.gather(scalars, 0)); });
  CHECK(scalar.is<InvalidArgument>());
  const auto vectors = values([](int) { return Tensor::zeros({2}); });
  const Thrown axis = thrown_once(w.strategy, [&] { static_cast<void>(w.strategy.gather(vectors, 1)); });
  CHECK(axis.is<InvalidArgument>());
  if (w.num_replicas == 1) return;
  const int last = w.last_replica();
  const auto unlike = values([&](int replica) { return Tensor::zeros({2, replica == last ? 4 : 3}); });
  const Thrown other = thrown_once(w.strategy, [&] { static_cast<void>(w.strategy.gather(unlike, 0)); });
  CHECK(other.is<InvalidArgument>());
  CHECK(other.has("[2, 4]"));
  CHECK(other.has("[2, 3]"));
  CHECK(other.names(last));
}

}  // namespace lockstep::test
