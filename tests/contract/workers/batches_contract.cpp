#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/test_backend.hpp"
#include "support/world.hpp"

/// Several values in one reduction, reductions beside other work, and sparse rows.
namespace lockstep::test {

namespace {

/// Tensor k of a replica: lengths and dtypes vary.
Tensor part(int k, int replica) {
  const std::int64_t size = (k * 37) % 101;
  std::vector<float> values;
  for (std::int64_t i = 0; i < size; ++i)
    values.push_back(0.1f * static_cast<float>(i + 1) / static_cast<float>(replica + k % 5 + 1));
  const Tensor tensor = Tensor::from(values, Shape(size));
  return k % 3 == 0 ? tensor : k % 3 == 1 ? tensor.cast(DType::f16) : (tensor * 100.0f).cast(DType::i32);
}

std::vector<Tensor> parts(int count, int replica) {
  std::vector<Tensor> result;
  for (int k = 0; k < count; ++k) result.push_back(part(k, replica));
  return result;
}

IndexedSlices rows(int replica, std::int64_t num_rows) {
  std::vector<float> rows;
  std::vector<std::int64_t> indices;
  for (std::int64_t k = 0; k < num_rows; ++k) {
    indices.push_back((replica + 2 * k) % 7);
    for (int column = 0; column < 3; ++column)
      rows.push_back(1.0f / static_cast<float>(1 + replica + column + 3 * k));
  }
  return {Tensor::from(rows, {num_rows, 3}), Tensor::from(indices, {num_rows}), {7, 3}};
}

}  // namespace

TEST_CASE("a nest is reduced leaf by leaf, and keeps its structure", "[workers]") {
  const World& w = world();
  const auto results = w.strategy.run([](ReplicaContext& ctx) {
    const auto id = static_cast<float>(ctx.replica_id_in_sync_group());
    const auto reduced = ctx.all_reduce(
        ReduceOp::sum, std::pair{Tensor::from<float>({id, 1}, {2}),
                                 std::map<std::string, Tensor>{{"a", Tensor::scalar(2 * id)},
                                                               {"b", Tensor::scalar(std::int64_t{5})}}});
    return std::tuple{reduced.first.to_vector<float>(), reduced.second.at("a").item<float>(),
                      reduced.second.at("b").item<std::int64_t>(), reduced.second.size()};
  });
  const auto n = static_cast<float>(w.num_replicas);
  const float ids = n * (n - 1) / 2;
  const auto& [first, a, b, size] = results;
  for (int i = 0; i < w.num_local_replicas; ++i) {
    CHECK(first[i] == std::vector<float>{ids, n});
    CHECK(a[i] == 2 * ids);
    CHECK(b[i] == 5 * w.num_replicas);
    CHECK(size[i] == 2);
  }
}

TEST_CASE("a batch of many small tensors has the bits of one process", "[workers]") {
  const auto [count, bytes] = GENERATE(std::pair{1, 0}, std::pair{40, 0}, std::pair{200, 0},
                                       std::pair{200, 64}, std::pair{200, 4096});
  CAPTURE(count, bytes);
  CHECK(difference_from_one_process([&, count = count, bytes = bytes](ReplicaContext& ctx) {
          return ctx.all_reduce(ReduceOp::sum, parts(count, ctx.replica_id_in_sync_group()),
                                {.bytes_per_pack = std::int64_t{bytes}});
        }) == "");
  CHECK(difference_from_one_process([&, count = count](ReplicaContext& ctx) {
          return ctx.all_reduce(ReduceOp::mean, parts(count, ctx.replica_id_in_sync_group()));
        }) == "");
}

TEST_CASE("a batch with one large tensor among small ones has the bits of one process", "[workers]") {
  CHECK(difference_from_one_process([](ReplicaContext& ctx) {
          std::vector<Tensor> batch = parts(10, ctx.replica_id_in_sync_group());
          const auto id = static_cast<float>(ctx.replica_id_in_sync_group() + 1);
          batch.insert(batch.begin() + 4, Tensor::arange(300'000.0f) / (3.0f * id));
          return ctx.all_reduce(ReduceOp::sum, batch);
        }) == "");
}

TEST_CASE("an empty batch is reduced at once", "[workers]") {
  for (const bool deterministic : {false, true}) {
    const auto sizes = world().strategy.run([&](ReplicaContext& ctx) {
      return ctx.all_reduce(ReduceOp::sum, std::vector<Tensor>(), {.deterministic = deterministic}).size();
    });
    for (const std::size_t size : sizes) CHECK(size == 0);
  }
  CHECK(is_usable(world().strategy));
}

TEST_CASE("started reductions give what all_reduce gives, in the order of their starts", "[workers]") {
  CHECK(difference_from_one_process([](ReplicaContext& ctx) {
          const int replica = ctx.replica_id_in_sync_group();
          std::vector<Tensor> results;
          for (int round = 0; round < 5; ++round) {
            auto first = ctx.start_all_reduce(ReduceOp::sum, parts(12, replica + round));
            auto second = ctx.start_all_reduce(ReduceOp::max, part(30, replica));
            const Tensor meanwhile = ctx.all_reduce(ReduceOp::mean, part(33, replica));
            auto third = ctx.start_all_reduce(ReduceOp::sum, std::pair{part(3, replica), 1.0f});
            results.push_back(third.wait().first);
            results.push_back(meanwhile);
            results.push_back(second.wait());
            for (const Tensor& tensor : first.wait()) results.push_back(tensor);
          }
          return results;
        }) == "");
}

TEST_CASE("a started reduction that nobody waits for is over with the run", "[workers]") {
  world().strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(ctx.start_all_reduce(ReduceOp::sum, part(50, ctx.replica_id_in_sync_group())));
  });
  CHECK(is_usable(world().strategy));
}

TEST_CASE("PackedReduction gives what all_reduce gives, whatever the packs", "[workers]") {
  const int bytes = GENERATE(0, 1, 500, 1'000'000);
  CAPTURE(bytes);
  CHECK(difference_from_one_process([&](ReplicaContext& ctx) {
          PackedReduction packed(ctx, ReduceOp::mean, {.bytes_per_pack = std::int64_t{bytes}});
          std::vector<Tensor> results;
          for (int round = 0; round < 2; ++round) {
            for (const Tensor& value : parts(25, ctx.replica_id_in_sync_group() + round)) packed.add(value);
            for (const Tensor& result : packed.wait()) results.push_back(result);
          }
          return results;
        }) == "");
}

TEST_CASE("sparse rows are concatenated in the order of global ids", "[workers]") {
  const World& w = world();
  // Replica r has r % 3 rows, so that some have none.
  CHECK(difference_from_one_process([](ReplicaContext& ctx) {
          const int replica = ctx.replica_id_in_sync_group();
          const IndexedSlices sum = ctx.all_reduce(ReduceOp::sum, rows(replica, replica % 3));
          const IndexedSlices mean = ctx.all_reduce(ReduceOp::mean, rows(replica, 2));
          const auto mixed = ctx.all_reduce(ReduceOp::sum, std::pair{part(9, replica), rows(replica, 1)});
          return std::vector<Tensor>{sum.values,   sum.indices, sum.to_dense(),     mean.values,
                                     mean.indices, mixed.first, mixed.second.values};
        }) == "");
  const auto indices = w.strategy.run([](ReplicaContext& ctx) {
    const int replica = ctx.replica_id_in_sync_group();
    return ctx.all_reduce(ReduceOp::sum, rows(replica, replica % 3)).indices.to_vector<std::int64_t>();
  });
  std::vector<std::int64_t> expected;
  for (int replica = 0; replica < w.num_replicas; ++replica)
    for (int k = 0; k < replica % 3; ++k) expected.push_back((replica + 2 * k) % 7);
  for (const auto& found : indices) CHECK(found == expected);
}

}  // namespace lockstep::test
