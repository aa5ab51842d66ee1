#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Reductions beside other work: start_all_reduce, start_batch_reduce_to, PackedReduction.
namespace lockstep::test {

namespace {

constexpr std::int64_t kSize = 50000;

Tensor filled(const ReplicaContext& ctx, float value) {
  return Tensor::full({kSize}, value + static_cast<float>(ctx.replica_id_in_sync_group()), DType::f32,
                      ctx.device());
}

/// The only value of all elements; -1: they differ.
float only_value(const Tensor& t) {
  const auto values = t.to_vector<float>();
  for (const float value : values)
    if (value != values[0]) return -1;
  return values[0];
}

/// Of {value + 0, value + 1, …}.
float sum_of(float value, int n) {
  return value * static_cast<float>(n) + static_cast<float>(n * (n - 1)) / 2;
}

}  // namespace

TEST_CASE("start_all_reduce gives what all_reduce gives, beside other work", "[strategy][overlap]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto [sums, meanwhile] = strategy.run([](ReplicaContext& ctx) {
    std::vector<Tensor> reduced, others;
    for (int round = 0; round < 10; ++round) {
      const Tensor mine = filled(ctx, 1);  // enqueued just before
      auto work = ctx.start_all_reduce(ReduceOp::sum, mine);
      others.push_back(mine * 2.0f + 1.0f);
      reduced.push_back(work.wait() + 0.0f);  // and read just after
    }
    return std::tuple{reduced, others};
  });
  for (const auto& sum : sums)
    for (const Tensor& part : sum) REQUIRE(only_value(part) == sum_of(1, n));
  for (const auto& value : meanwhile)
    for (int i = 0; i < n; ++i) REQUIRE(only_value(value[i]) == 3.0f + 2.0f * static_cast<float>(i));
}

TEST_CASE("started reductions keep the structure and the order of their starts", "[strategy][overlap]") {
  Replicas strategy(2);
  const auto results = strategy.run([](ReplicaContext& ctx) {
    using Nest = std::map<std::string, std::tuple<Tensor, float>>;
    auto first = ctx.start_all_reduce(ReduceOp::sum,
                                      Nest{{"a", {filled(ctx, 1), 2.0f}}, {"b", {filled(ctx, 3), 4.0f}}});
    auto second = ctx.start_all_reduce(ReduceOp::max, filled(ctx, 7));
    auto third = ctx.start_all_reduce(ReduceOp::mean, std::vector<Tensor>{filled(ctx, 2)});
    const Tensor last = third.wait()[0];
    const Tensor largest = second.wait();
    return std::tuple{first.wait(), largest, last};
  });
  const auto& [nest, largest, last] = results;
  for (int i = 0; i < 2; ++i) {
    REQUIRE(only_value(std::get<0>(nest.at("a"))[i]) == 3.0f);
    REQUIRE(std::get<1>(nest.at("b"))[i].item<float>() == 8.0f);
    REQUIRE(only_value(largest[i]) == 8.0f);
    REQUIRE(only_value(last[i]) == 2.5f);
  }
}

TEST_CASE("a started reduction may be dropped, or waited for on the host", "[strategy][overlap]") {
  Replicas strategy(2);
  const auto sums = strategy.run([](ReplicaContext& ctx) {
    for (int round = 0; round < 20; ++round)
      static_cast<void>(ctx.start_all_reduce(ReduceOp::sum, filled(ctx, 5)));
    auto work = ctx.start_all_reduce(ReduceOp::sum, filled(ctx, 1));
    work.synchronize();
    const bool complete = work.is_complete();
    auto moved = std::move(work);
    return std::tuple{moved.wait(), complete};
  });
  for (int i = 0; i < 2; ++i) {
    REQUIRE(only_value(std::get<0>(sums)[i]) == 3.0f);
    REQUIRE(std::get<1>(sums)[i]);
  }
}

TEST_CASE("start_all_reduce in the default context, and with an explicit way to combine",
          "[strategy][overlap]") {
  ReplicaContext& context = *get_replica_context();
  REQUIRE(context.start_all_reduce(ReduceOp::sum, Tensor::scalar(3.0f)).wait().item<float>() == 3.0f);
  MirroredStrategy strategy(TestBackend::devices(2), std::make_unique<ReductionToOneDevice>());
  const auto sums = strategy.run([](ReplicaContext& ctx) {
    auto work = ctx.start_all_reduce(ReduceOp::sum, filled(ctx, 1));
    return work.wait();
  });
  REQUIRE(only_value(sums[1]) == 3.0f);
}

TEST_CASE("start_all_reduce refuses as all_reduce does, and the strategy goes on", "[strategy][overlap]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    static_cast<void>(
        ctx.start_all_reduce(ReduceOp::sum, Tensor::zeros({2 + ctx.replica_id_in_sync_group()})));
  }),
                         CollectiveMismatch, says("all_reduce(sum) on replica 1", "[3]", "[2]"));
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    const IndexedSlices slices{Tensor::zeros({1, 2}), Tensor::zeros({1}, DType::i64), {5, 2}};
    static_cast<void>(ctx.start_all_reduce(ReduceOp::sum, slices));
  }),
                         InvalidArgument, says("start_all_reduce(sum)", "sparse rows", "Use all_reduce"));
  const auto sums = strategy.run(
      [](ReplicaContext& ctx) { return ctx.start_all_reduce(ReduceOp::sum, filled(ctx, 1)).wait(); });
  REQUIRE(only_value(sums[0]) == 3.0f);
}

TEST_CASE("start_batch_reduce_to gives what batch_reduce_to gives", "[strategy][overlap]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto scope = strategy.scope();
  auto& x = strategy.extended();
  const Variable w(Tensor::zeros({kSize})), b(Tensor::zeros({3}));
  for (int round = 0; round < 5; ++round) {
    const auto [large, small] = strategy.run([](ReplicaContext& ctx) {
      return std::tuple{filled(ctx, 1),
                        Tensor::full({3}, static_cast<float>(ctx.replica_id_in_sync_group()))};
    });
    auto work = x.start_batch_reduce_to(ReduceOp::sum, {{large, w}, {small, TestBackend::device()}});
    const auto meanwhile = strategy.run([](const Tensor& t) { return t * 2.0f; }, large);
    const std::vector<Mirrored<Tensor>> sums = work.wait();
    x.update(
        w, [](Tensor& local, const Tensor& g) { local.copy_(g); }, sums[0]);
    REQUIRE(sums.size() == 2);
    REQUIRE(sums[1].size() == 1);
    REQUIRE(sums[1][0].to_vector<float>() == std::vector<float>(3, sum_of(0, n)));
    for (const Tensor& part : strategy.local_results(w)) REQUIRE(only_value(part) == sum_of(1, n));
    REQUIRE(only_value(meanwhile[0]) == 2.0f);
  }
  REQUIRE(x.start_batch_reduce_to(ReduceOp::sum, {}).wait().empty());
  if (n > 1)
    REQUIRE_THROWS_AS(x.start_batch_reduce_to(ReduceOp::sum, {{Tensor::scalar(1.0f), w}}), InvalidArgument);
  REQUIRE_THROWS_AS(strategy.run([&] { static_cast<void>(x.start_batch_reduce_to(ReduceOp::sum, {})); }),
                    ContextError);
}

TEST_CASE("PackedReduction: values travel in packs, and come back in their order", "[strategy][overlap]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  const std::int64_t limit = GENERATE(0, 1, 1000, 1 << 30);
  const auto what = GENERATE(PackedReduction::Values::kept, PackedReduction::Values::given);
  Replicas strategy(n);
  const auto sums = strategy.run([&](ReplicaContext& ctx) {
    PackedReduction reduction(ctx, ReduceOp::sum, {.bytes_per_pack = limit}, what);
    std::vector<Tensor> all;
    for (int round = 0; round < 2; ++round) {
      for (const std::int64_t size : {1, 300, 7, 50000, 0, 2}) {
        const auto value = static_cast<float>(size) + static_cast<float>(ctx.replica_id_in_sync_group());
        reduction.add(Tensor::full({size}, value, DType::f32, ctx.device()));
      }
      for (const Tensor& sum : reduction.wait()) all.push_back(sum);
    }
    return all;
  });
  REQUIRE(sums.size() == 12);
  std::size_t k = 0;
  for (int round = 0; round < 2; ++round) {
    for (const std::int64_t size : {1, 300, 7, 50000, 0, 2}) {
      for (int i = 0; i < n; ++i) {
        REQUIRE(sums[k][i].size() == size);
        if (size > 0) REQUIRE(only_value(sums[k][i]) == sum_of(static_cast<float>(size), n));
      }
      ++k;
    }
  }
}

TEST_CASE("PackedReduction: replicas that disagree are told", "[strategy][overlap]") {
  Replicas strategy(2);
  REQUIRE_THROWS_AS(strategy.run([&](ReplicaContext& ctx) {
    PackedReduction reduction(ctx, ReduceOp::sum);
    for (int k = 0; k <= ctx.replica_id_in_sync_group(); ++k) reduction.add(Tensor::zeros({4}));
    return reduction.wait();
  }),
                    CollectiveMismatch);
  REQUIRE_THROWS_AS(
      strategy.run([&](ReplicaContext& ctx) { PackedReduction(ctx, ReduceOp::sum, {.bytes_per_pack = -1}); }),
      InvalidArgument);
  const auto none =
      strategy.run([&](ReplicaContext& ctx) { return PackedReduction(ctx, ReduceOp::sum).wait(); });
  REQUIRE(none.empty());
}

TEST_CASE("PackedReduction: wait has no results without those of a pack that was refused",
          "[strategy][overlap]") {
  Replicas strategy(2);
  const auto right = strategy.run([](ReplicaContext& ctx) {
    const int id = ctx.replica_id_in_sync_group();
    const auto message = says("all_reduce(sum)", "[3]", "[2]");
    PackedReduction reduction(ctx, ReduceOp::sum, {.bytes_per_pack = 4});
    int as_expected = 0;
    reduction.add(Tensor::ones({2}));
    try {
      reduction.add(Tensor::ones({2 + id}));
    } catch (const CollectiveMismatch& error) {
      as_expected += message.match(error);
    }
    reduction.add(Tensor::ones({2}));
    try {
      reduction.wait();
    } catch (const CollectiveMismatch& error) {
      as_expected += message.match(error);
    }
    // Where wait itself starts it.
    PackedReduction rest(ctx, ReduceOp::sum);
    rest.add(Tensor::ones({2 + id}));
    try {
      rest.wait();
    } catch (const CollectiveMismatch& error) {
      as_expected += message.match(error);
    }
    reduction.add(Tensor::ones({2}));
    rest.add(Tensor::ones({2}));
    return as_expected + static_cast<int>(reduction.wait().size() + rest.wait().size());
  });
  REQUIRE((right[0] == 5 && right[1] == 5));
}

}  // namespace lockstep::test
