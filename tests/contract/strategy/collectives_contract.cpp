#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/expected.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// ReplicaContext::all_reduce and all_gather.
namespace lockstep::test {

using enum ReduceOp;

namespace {

float id_of(const ReplicaContext& ctx) { return static_cast<float>(ctx.replica_id_in_sync_group()); }

}  // namespace

TEST_CASE("all-reduce-two-values: a nest is reduced as one batch", "[strategy][collective]") {
  Replicas strategy(2);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    return ctx.all_reduce(sum, std::vector{Tensor::scalar(1.0f), Tensor::scalar(2.0f)});
  });
  REQUIRE(items<float>(result[0]) == std::vector<float>{2, 2});
  REQUIRE(items<float>(result[1]) == std::vector<float>{4, 4});
}

TEST_CASE("all-reduce-variable: a mirrored variable contributes its component", "[strategy][collective]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(2.0f));
  const auto result = strategy.run(
      [&](ReplicaContext& ctx) { return (ctx.all_reduce(sum, variable) + id_of(ctx)).item<float>(); });
  REQUIRE((result[0] == 4.0f && result[1] == 5.0f));
}

TEST_CASE("P10 the sum of a mirrored variable counts every replica", "[strategy][collective]") {
  Replicas strategy(4);
  const auto scope = strategy.scope();
  const Variable ones(Tensor::ones({3}));
  const auto result =
      strategy.run([&](ReplicaContext& ctx) { return ctx.all_reduce(sum, ones).to_vector<float>(); });
  for (int i = 0; i < 4; ++i) REQUIRE(result[i] == std::vector<float>{4, 4, 4});
}

TEST_CASE("all-gather-1d: every replica gets the concatenation", "[strategy][collective]") {
  Replicas strategy(2);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    return ctx.all_gather(Tensor::from<float>({1, 2, 3}, {3}), 0).to_vector<float>();
  });
  for (int i : {0, 1}) REQUIRE(result[i] == std::vector<float>{1, 2, 3, 1, 2, 3});
}

TEST_CASE("P08 all_reduce gives each operator its own result, on every replica", "[strategy][collective]") {
  const auto [op, expected] = GENERATE(
      table<ReduceOp, float>({{sum, 7.0f}, {mean, 3.5f}, {min, 2.0f}, {max, 5.0f}, {product, 10.0f}}));
  Replicas strategy(2);
  const auto value = scalars<float>({2, 5});
  const auto result = strategy.run(
      [op = op](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(op, x).item<float>(); }, value);
  REQUIRE((result[0] == expected && result[1] == expected));
}

TEST_CASE("all_reduce of a host scalar is one contribution from each replica", "[strategy][collective]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    const Tensor total = ctx.all_reduce(sum, 1.0);
    return std::tuple{total.item<double>(), total.device() == ctx.device()};
  });
  for (int i = 0; i < n; ++i) {
    REQUIRE(std::get<0>(result)[i] == n);
    REQUIRE(std::get<1>(result)[i]);
  }
}

TEST_CASE("P16 all_reduce with one replica is the identity", "[strategy][collective]") {
  Replicas strategy(1);
  for (const ReduceOp op : {sum, mean, min, max, product})
    REQUIRE(strategy.run([op](ReplicaContext& ctx) { return ctx.all_reduce(op, 3.5f).item<float>(); }) ==
            3.5f);
  const Tensor value = Tensor::from<float>({1, 2}, {2});
  REQUIRE(get_replica_context()->all_reduce(sum, value).is_same_object(value));
  REQUIRE(get_replica_context()->all_gather(value, 0).is_same_object(value));
  OneDeviceStrategy one(TestBackend::device());
  REQUIRE(one.run([](ReplicaContext& ctx) { return ctx.all_reduce(sum, 3.5f).item<float>(); }) == 3.5f);
}

TEST_CASE("all_reduce keeps the structure of nests with mixed leaves", "[strategy][collective]") {
  Replicas strategy(2);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    const float id = id_of(ctx);
    const auto nest = std::tuple{
        id, std::map<std::string, std::vector<Tensor>>{{"a", {Tensor::scalar(id), Tensor::scalar(2)}}}};
    const auto [total, map] = ctx.all_reduce(sum, nest);
    return std::tuple{total.template item<float>(), map.at("a")[0].template item<float>(),
                      map.at("a")[1].template item<int>()};
  });
  const auto& [total, first, second] = result;
  REQUIRE((total[1] == 1.0f && first[0] == 1.0f && second[1] == 4));
}

TEST_CASE("all_reduce copies a host tensor to the replica's device first", "[strategy][collective]") {
  Replicas strategy(2);
  const Tensor on_host = Tensor::scalar(4.0f, "CPU:0");
  const auto result = strategy.run([&](ReplicaContext& ctx) {
    const Tensor total = ctx.all_reduce(sum, on_host);
    return total.device() == ctx.device() && total.item<float>() == 8.0f;
  });
  REQUIRE((result[0] && result[1]));
  REQUIRE(on_host.item<float>() == 4.0f);
}

TEST_CASE("the mean divides integers truly, in the dtype of every entry point", "[strategy][collective]") {
  Replicas strategy(2);
  const auto result = strategy.run(
      [](ReplicaContext& ctx) { return ctx.all_reduce(mean, 3 + ctx.replica_id_in_sync_group()); });
  REQUIRE(items<double>(result) == std::vector<double>{3.5, 3.5});
}

TEST_CASE("P23 all_reduce of different shapes or dtypes is refused on every replica",
          "[strategy][collective]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(sum, Tensor::zeros({4 - ctx.replica_id_in_sync_group()})));
  }),
                         CollectiveMismatch,
                         says("all_reduce(sum)", "replica 1", "[3] float32", "replica 0", "[4] float32"));
  REQUIRE(strategy.last_failures().size() == 2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(
        sum, Tensor::zeros({4}, ctx.replica_id_in_sync_group() == 0 ? DType::f32 : DType::bf16)));
  }),
                         CollectiveMismatch, says("replica 1", "bfloat16", "replica 0", "float32"));
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(
        ctx.all_reduce(sum, std::vector<Tensor>(1 + static_cast<std::size_t>(ctx.replica_id_in_sync_group()),
                                                Tensor::zeros({1}))));
  }),
                         CollectiveMismatch, says("replica 1", "2 tensors", "replica 0's 1"));
}

TEST_CASE("all_reduce refuses booleans", "[strategy][collective]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(
      strategy.run([](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(sum, true)); }),
      InvalidArgument, says("bool"));
}

TEST_CASE("all_gather takes any axis and sizes that differ along it", "[strategy][collective]") {
  Replicas strategy(3);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    const int id = ctx.replica_id_in_sync_group();
    const Tensor rows = Tensor::full({id, 2}, static_cast<float>(id));  // replica 0 has none
    const Tensor columns = Tensor::full({2, id + 1}, static_cast<float>(id));
    const auto [by_row, by_column] =
        std::pair{ctx.all_gather(rows, 0), ctx.all_gather(std::vector{columns, columns}, -1)};
    return std::tuple{by_row.shape() == Shape(3, 2), by_row.to_vector<float>(),
                      by_column[1].shape() == Shape(2, 6), by_column[1].to_vector<float>()};
  });
  const auto& [row_shape, rows, column_shape, columns] = result;
  for (int i : {0, 1, 2}) {
    REQUIRE((row_shape[i] && column_shape[i]));
    REQUIRE(rows[i] == std::vector<float>{1, 1, 2, 2, 2, 2});
    REQUIRE(columns[i] == std::vector<float>{0, 1, 1, 2, 2, 2, 0, 1, 1, 2, 2, 2});
  }
}

TEST_CASE("all_gather refuses what cannot be concatenated, on every replica", "[strategy][collective]") {
  Replicas strategy(2);
  const auto gather = [&](auto value_of, std::int64_t axis = 0) {
    return [=](ReplicaContext& ctx) {
      static_cast<void>(ctx.all_gather(value_of(ctx.replica_id_in_sync_group()), axis));
    };
  };
  REQUIRE_THROWS_MATCHES(strategy.run(gather([](int id) { return id; })), InvalidArgument,
                         says("all_gather", "scalars cannot be concatenated"));
  REQUIRE_THROWS_MATCHES(strategy.run(gather([](int) { return Tensor::zeros({2}); }, 1)), InvalidArgument,
                         says("axis 1", "rank 1"));
  REQUIRE_THROWS_MATCHES(strategy.run(gather([](int id) {
    return Tensor::zeros({1, 2 + id});
  })),
                         InvalidArgument, says("all_gather on replica 1", "[1, 3]", "replica 0", "[1, 2]"));
  REQUIRE_THROWS_MATCHES(strategy.run(gather([](int id) {
    return id == 0 ? Tensor::zeros({1}) : Tensor::zeros({1, 1});
  })),
                         InvalidArgument, says("replica 1", "rank"));
  REQUIRE_THROWS_MATCHES(
      strategy.run(gather([](int id) { return Tensor::zeros({1}, id == 0 ? DType::f32 : DType::f64); })),
      InvalidArgument, says("replica 1", "float64", "float32"));
  REQUIRE(strategy.last_failures().size() == 2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_gather(Tensor::zeros({2, 2}), ctx.replica_id_in_sync_group()));
  }),
                         CollectiveMismatch,
                         says("all_gather", "replica 1", "axis 1", "replica 0", "axis 0"));
  const IndexedSlices slices{Tensor::zeros({1, 2}), Tensor::zeros({1}, DType::i64), {5, 2}};
  REQUIRE_THROWS_MATCHES(
      strategy.run([&](ReplicaContext& ctx) { static_cast<void>(ctx.all_gather(slices, 0)); }), Unsupported,
      says("all_gather of sparse rows", "IndexedSlices cannot be gathered"));
}

TEST_CASE("P28 a strided view is reduced as its elements and left as it was", "[strategy][collective]") {
  Replicas strategy(2);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    const Tensor matrix = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
    Tensor column = matrix.narrow(1, 0, 1);
    const Tensor total = ctx.all_reduce(sum, column);
    column.copy_(total);  // in place, if that is wanted
    return std::tuple{total.to_vector<float>(), matrix.to_vector<float>()};
  });
  REQUIRE(std::get<0>(result)[1] == std::vector<float>{2, 6});
  REQUIRE(std::get<1>(result)[1] == std::vector<float>{2, 2, 6, 4});
}

TEST_CASE("P30 all_reduce leaves its inputs", "[strategy][collective]") {
  Replicas strategy(2);
  const auto value = vectors<float>({{1, 2}, {3, 4}});
  strategy.run(
      [](ReplicaContext& ctx, const Tensor& x) {
        static_cast<void>(ctx.all_reduce(sum, std::vector{x, x}));
      },
      value);
  REQUIRE(value[0].to_vector<float>() == std::vector<float>{1, 2});
  REQUIRE(value[1].to_vector<float>() == std::vector<float>{3, 4});
}

TEST_CASE("P31 zero elements are nothing to do", "[strategy][collective]") {
  Replicas strategy(2);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    const Tensor nothing = Tensor::zeros({1, 0, 2});
    const auto reduced = ctx.all_reduce(mean, std::tuple{nothing, Tensor::scalar(1.0f), nothing});
    const Tensor gathered = ctx.all_gather(Tensor::zeros({0, 3}), 0);
    const auto none = ctx.all_reduce(sum, std::vector<Tensor>());
    const auto none_in_order = ctx.all_reduce(sum, std::vector<Tensor>(), {.deterministic = true});
    const Tensor null = Tensor::view(static_cast<void*>(nullptr), {0}, DType::f32, ctx.device());
    return std::get<0>(reduced).shape() == Shape(1, 0, 2) && std::get<1>(reduced).item<float>() == 1.0f &&
           gathered.shape() == Shape(0, 3) && none.empty() && none_in_order.empty() &&
           ctx.all_reduce(max, null).size() == 0;
  });
  REQUIRE((result[0] && result[1]));
}

TEST_CASE("P25 batches may mix dtypes and odd lengths, a thousand times in a row", "[strategy][collective]") {
  const int n = GENERATE(2, 3);
  Replicas strategy(n);
  int wrong = 0;
  for (int round = 0; round < (kSlowBuild ? 20 : 1000); ++round) {
    const auto checks = strategy.run([n](ReplicaContext& ctx) {
      const int id = ctx.replica_id_in_sync_group();
      const auto [bytes, doubles, halves, longs] =
          ctx.all_reduce(sum, std::tuple{Tensor::from(pattern_values<std::int8_t>(33, id), {33}),
                                         Tensor::from(pattern_values<double>(17, id), {17}),
                                         Tensor::from(pattern_values<f16>(129, id), {129}),
                                         Tensor::from(pattern_values<std::int64_t>(1, id), {1})});
      bool right = longs.item<std::int64_t>() == pattern_sum_over_replicas(0, n);
      const auto b = bytes.to_vector<std::int8_t>();
      const auto d = doubles.to_vector<double>();
      const auto h = halves.to_vector<f16>();
      for (int i = 0; i < 33; ++i)
        right = right && b[static_cast<std::size_t>(i)] == pattern_sum_over_replicas(i, n);
      for (int i = 0; i < 17; ++i)
        right = right && d[static_cast<std::size_t>(i)] == pattern_sum_over_replicas(i, n);
      for (int i = 0; i < 129; ++i)
        right = right && static_cast<float>(h[static_cast<std::size_t>(i)]) ==
                             static_cast<float>(pattern_sum_over_replicas(i, n));
      return right;
    });
    for (int i = 0; i < n; ++i) wrong += !checks[i];
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("P25 large batches of halves and floats", "[strategy][collective]") {
  const std::int64_t kElements = kSlowBuild ? 65537 : 4194304;
  Replicas strategy(2);
  const auto checks = strategy.run([=](ReplicaContext& ctx) {
    const auto [halves, floats] = ctx.all_reduce(
        sum, std::pair{Tensor::ones({kElements}, DType::f16), Tensor::full({kElements}, id_of(ctx))});
    const Tensor low = lockstep::min(floats), high = lockstep::max(floats);
    const Tensor halves_low = lockstep::min(halves), halves_high = lockstep::max(halves);
    return low.item<float>() == 1.0f && high.item<float>() == 1.0f &&
           static_cast<float>(halves_low.item<f16>()) == 2.0f &&
           static_cast<float>(halves_high.item<f16>()) == 2.0f;
  });
  REQUIRE((checks[0] && checks[1]));
}

TEST_CASE("P35 all replicas hold the same bits, batched or not, packed or not", "[strategy][collective]") {
  const int n = GENERATE(2, 3, 4);
  if (TestBackend::num_devices() < n) SKIP("needs " << n << " devices");
  Replicas strategy(n);
  const auto results = strategy.run([](ReplicaContext& ctx) {
    const float scale = 0.1f * (1.0f + id_of(ctx));
    const Tensor x = Tensor::full({1025}, scale), y = Tensor::full({31}, scale * 3);
    const auto batch = ctx.all_reduce(mean, std::pair{x, y}, {.deterministic = true});
    const auto packed =
        ctx.all_reduce(mean, std::pair{x, y}, {.bytes_per_pack = 1 << 20, .deterministic = true});
    const auto apart = ctx.all_reduce(mean, std::pair{x, y}, {.bytes_per_pack = 1, .deterministic = true});
    const Tensor x_alone = ctx.all_reduce(mean, x, {.deterministic = true});
    const Tensor y_alone = ctx.all_reduce(mean, y, {.deterministic = true});
    return std::array<std::vector<float>, 8>{
        batch.first.to_vector<float>(),  packed.first.to_vector<float>(), apart.first.to_vector<float>(),
        x_alone.to_vector<float>(),      batch.second.to_vector<float>(), packed.second.to_vector<float>(),
        apart.second.to_vector<float>(), y_alone.to_vector<float>()};
  });
  for (std::size_t k = 0; k < 8; ++k)
    for (int i = 0; i < n; ++i) REQUIRE(results[k][i] == results[k < 4 ? 0 : 4][0]);
}

TEST_CASE("a call's options switch off the strategy's", "[strategy][collective]") {
  Replicas strategy(2, {.deterministic = true});
  const auto reduce = [](ReplicaContext& ctx, const CommunicationOptions& options) {
    return ctx.all_reduce(sum, 1.0f, options).item<float>();
  };
  const auto sums = strategy.run([&](ReplicaContext& ctx) { return reduce(ctx, {.deterministic = false}); });
  REQUIRE((sums[0] == 2.0f && sums[1] == 2.0f));
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0) return reduce(ctx, {});
    return reduce(ctx, {.deterministic = false});
  }),
                         CollectiveMismatch, says("deterministic = false", "replica 0's true"));
}

TEST_CASE("sparse rows are concatenated on every replica", "[strategy][collective]") {
  Replicas strategy(2);
  const auto rows = strategy.distribute_values_from_function([](ValueContext ctx) {
    if (ctx.replica_id_in_sync_group() == 0)
      return IndexedSlices{Tensor::from<float>({1, 2}, {1, 2}), Tensor::from<std::int64_t>({1}, {1}), {5, 2}};
    return IndexedSlices{
        Tensor::from<float>({3, 4, 5, 6}, {2, 2}), Tensor::from<std::int64_t>({1, 3}, {2}), {5, 2}};
  });
  const auto result = strategy.run(
      [](ReplicaContext& ctx, const IndexedSlices& mine) {
        const auto [total, plain, average] =
            std::tuple{ctx.all_reduce(sum, mine), ctx.all_reduce(sum, std::pair{1.0f, mine}),
                       ctx.all_reduce(mean, mine)};
        return std::tuple{total.indices.to_vector<std::int64_t>(), total.to_dense().to_vector<float>(),
                          average.to_dense().to_vector<float>(), plain.first.item<float>()};
      },
      rows);
  const auto& [indices, dense, average, scalar] = result;
  for (int i : {0, 1}) {
    REQUIRE(indices[i] == std::vector<std::int64_t>{1, 1, 3});  // duplicates are kept
    REQUIRE(dense[i] == std::vector<float>{0, 0, 4, 6, 0, 0, 5, 6, 0, 0});
    REQUIRE(average[i] == std::vector<float>{0, 0, 2, 3, 0, 0, 2.5f, 3, 0, 0});
    REQUIRE(scalar[i] == 2.0f);
  }
}

TEST_CASE("sparse rows of different dense tensors, and other operators, are refused",
          "[strategy][collective]") {
  Replicas strategy(2);
  const auto slices = [](std::int64_t rows) {
    return IndexedSlices{Tensor::zeros({1, 2}), Tensor::zeros({1}, DType::i64), {rows, 2}};
  };
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(sum, slices(5 + ctx.replica_id_in_sync_group())));
  }),
                         CollectiveMismatch,
                         says("sparse rows of replica 1", "[6, 2]", "replica 0", "[5, 2]"));
  REQUIRE_THROWS_MATCHES(
      strategy.run([&](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(max, slices(5))); }),
      InvalidArgument, says("max", "can only be summed or averaged"));
}

}  // namespace lockstep::test
