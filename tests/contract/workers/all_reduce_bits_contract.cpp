#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/dtypes.hpp"
#include "support/expected.hpp"
#include "support/test_backend.hpp"
#include "support/world.hpp"

/// all_reduce of single tensors: every operator, dtype and size, with the bits that one process gives.
namespace lockstep::test {

namespace {

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::product};

/// Numbers with many significant bits, that differ between replicas, and whose sums round.
std::vector<float> uneven(std::int64_t n, int replica) {
  std::vector<float> result;
  result.reserve(static_cast<std::size_t>(n));
  std::uint32_t state = 12345u + 977u * static_cast<std::uint32_t>(replica);
  for (std::int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    result.push_back((static_cast<float>(state >> 8) * 0x1p-24f - 0.5f) * (i % 7 == 0 ? 1000.0f : 1.0f));
  }
  return result;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("all_reduce of every operator, dtype and size has one process's bits", "[workers]",
                        NumericTypes) {
  using T = TestType;
  const std::vector<std::int64_t> sizes =
      kSlowBuild ? std::vector<std::int64_t>{0, 257} : std::vector<std::int64_t>{0, 1, 5, 257, 1000};
  for (const ReduceOp op : kOps) {
    for (const std::int64_t size : sizes) {
      CAPTURE(op, size);
      CHECK(difference_from_one_process([&](ReplicaContext& ctx) {
              const Tensor mine =
                  Tensor::from(pattern_values<T>(size, ctx.replica_id_in_sync_group()), Shape(size));
              return std::vector<Tensor>{ctx.all_reduce(op, mine)};
            }) == "");
    }
  }
}

TEMPLATE_LIST_TEST_CASE("all_reduce gives the closed form of sums and means", "[workers]", NumericTypes) {
  using T = TestType;
  const World& w = world();
  constexpr std::int64_t kSize = 33;
  const auto results = w.strategy.run([&](ReplicaContext& ctx) {
    const Tensor mine = Tensor::from(pattern_values<T>(kSize, ctx.replica_id_in_sync_group()), Shape(kSize));
    return std::tuple{ctx.all_reduce(ReduceOp::sum, mine).cast(DType::f64).template to_vector<double>(),
                      ctx.all_reduce(ReduceOp::mean, mine).cast(DType::f64).template to_vector<double>()};
  });
  const auto& [sums, means] = results;
  for (int i = 0; i < w.num_local_replicas; ++i) {
    for (std::int64_t k = 0; k < kSize; ++k) {
      const double expected = pattern_sum_over_replicas(k, w.num_replicas);
      const auto at = static_cast<std::size_t>(k);
      // Within a rounding of the narrowest type, e5m2 with its two bits.
      CHECK(std::abs(sums[i][at] - expected) <= expected * 0.125);
      CHECK(std::abs(means[i][at] - expected / w.num_replicas) <= expected / w.num_replicas * 0.125);
    }
  }
}

TEST_CASE("all_reduce of floats of every length has one process's bits", "[workers]") {
  const std::int64_t size = GENERATE(0, 1, 5, 257, 1000, 100'003, 3'000'000);
  if (kSlowBuild && size > 1'000'000) return;
  for (const ReduceOp op : kOps) {
    CAPTURE(op, size);
    CHECK(difference_from_one_process([&](ReplicaContext& ctx) {
            const auto mine = uneven(size, ctx.replica_id_in_sync_group());
            return std::vector<Tensor>{ctx.all_reduce(op, Tensor::from(mine, Shape(size)))};
          }) == "");
  }
}

TEST_CASE("all_reduce of small floats and doubles that round has one process's bits", "[workers]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f64);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::product}) {
    CAPTURE(op, dtype);
    CHECK(difference_from_one_process([&](ReplicaContext& ctx) {
            const auto mine = uneven(4099, ctx.replica_id_in_sync_group());
            return std::vector<Tensor>{ctx.all_reduce(op, Tensor::from(mine, Shape(4099)).cast(dtype))};
          }) == "");
  }
}

TEST_CASE("all replicas of all workers get the same bits", "[workers]") {
  const World& w = world();
  constexpr std::int64_t kSize = 10'007;
  // Where the least and the greatest of all replicas' results are a replica's own, all have it.
  const auto same = w.strategy.run([&](ReplicaContext& ctx) {
    const auto mine = uneven(kSize, ctx.replica_id_in_sync_group());
    const Tensor sum = ctx.all_reduce(ReduceOp::sum, Tensor::from(mine, Shape(kSize)));
    const Tensor least = ctx.all_reduce(ReduceOp::min, sum), greatest = ctx.all_reduce(ReduceOp::max, sum);
    return least.to_vector<float>() == sum.to_vector<float>() &&
           greatest.to_vector<float>() == sum.to_vector<float>();
  });
  for (const bool is_same : same) CHECK(is_same);
}

TEST_CASE("all_reduce repeats bit for bit", "[workers]") {
  const World& w = world();
  const auto repeats = w.strategy.run([](ReplicaContext& ctx) {
    const Tensor mine = Tensor::from(uneven(5001, ctx.replica_id_in_sync_group()), Shape(5001));
    const auto first = ctx.all_reduce(ReduceOp::sum, mine).to_vector<float>();
    bool is_equal = true;
    for (int round = 0; round < 20; ++round)
      is_equal = ctx.all_reduce(ReduceOp::sum, mine).to_vector<float>() == first && is_equal;
    return is_equal;
  });
  for (const bool is_equal : repeats) CHECK(is_equal);
}

TEST_CASE("NaN, infinities and signed zeros travel between workers as within one", "[workers]") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  const int last = world().last_replica();
  for (const ReduceOp op : kOps) {
    CAPTURE(op);
    CHECK(difference_from_one_process([&](ReplicaContext& ctx) {
            const int replica = ctx.replica_id_in_sync_group();
            const std::vector<float> mine = {replica == last ? kNaN : 1.0f,
                                             replica == 0 ? kInfinity : 2.0f,
                                             replica == 0      ? kInfinity
                                             : replica == last ? -kInfinity
                                                               : 0.0f,
                                             replica % 2 == 0 ? 0.0f : -0.0f,
                                             -0.0f,
                                             kLargest,
                                             replica == last ? -kLargest : kLargest,
                                             std::numeric_limits<float>::denorm_min()};
            return std::vector<Tensor>{ctx.all_reduce(op, Tensor::from(mine, Shape(mine.size())))};
          }) == "");
  }
  const auto found = world().strategy.run([&](ReplicaContext& ctx) {
    const float mine = ctx.replica_id_in_sync_group() == last ? kNaN : 1.0f;
    return std::isnan(ctx.all_reduce(ReduceOp::min, mine).item<float>());
  });
  for (const bool is_nan : found) CHECK(is_nan);
}

TEST_CASE("integers wrap in sums, and their means are true divisions", "[workers]") {
  const World& w = world();
  const auto results = w.strategy.run([](ReplicaContext& ctx) {
    const int replica = ctx.replica_id_in_sync_group();
    const auto wide = ctx.all_reduce(ReduceOp::mean, Tensor::scalar(std::int64_t{replica} + 1));
    const auto narrow =
        ctx.all_reduce(ReduceOp::mean, Tensor::scalar(static_cast<std::uint8_t>(200 + replica)));
    return std::tuple{ctx.all_reduce(ReduceOp::sum, Tensor::scalar(std::int8_t{100})).item<std::int8_t>(),
                      wide.dtype(), wide.item<double>(), narrow.dtype(), narrow.item<float>()};
  });
  const auto& [wrapped, wide_dtype, wide, narrow_dtype, narrow] = results;
  for (int i = 0; i < w.num_local_replicas; ++i) {
    CHECK(wrapped[i] == static_cast<std::int8_t>(100 * w.num_replicas));
    CHECK(wide_dtype[i] == DType::f64);
    CHECK(wide[i] == (w.num_replicas + 1) / 2.0);
    CHECK(narrow_dtype[i] == DType::f32);
    CHECK(narrow[i] == static_cast<float>(200 + (w.num_replicas - 1) / 2.0));
  }
}

TEST_CASE("a host scalar, and a tensor that all replicas capture, count once for each replica", "[workers]") {
  const World& w = world();
  const Tensor captured = Tensor::from<float>({1, 2}, {2});
  const Variable variable = w.strategy.make_variable(Tensor::scalar(3.0f));
  const auto results = w.strategy.run([&](ReplicaContext& ctx) {
    return std::tuple{ctx.all_reduce(ReduceOp::sum, 1.0f).item<float>(),
                      ctx.all_reduce(ReduceOp::sum, captured).to_vector<float>(),
                      ctx.all_reduce(ReduceOp::sum, variable).item<float>(),
                      ctx.all_reduce(ReduceOp::mean, variable).item<float>()};
  });
  const auto& [scalar, tensor, sum, mean] = results;
  const auto n = static_cast<float>(w.num_replicas);
  for (int i = 0; i < w.num_local_replicas; ++i) {
    CHECK(scalar[i] == n);
    CHECK(tensor[i] == std::vector<float>{n, 2 * n});
    CHECK(sum[i] == 3 * n);
    CHECK(mean[i] == 3);
  }
}

TEST_CASE("booleans are refused on every worker, and the strategy goes on", "[workers]") {
  Strategy& strategy = world().strategy;
  const Thrown thrown = thrown_once(strategy, [&] {
    strategy.run([](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(ReduceOp::sum, true)); });
  });
  CHECK(thrown.is<InvalidArgument>());
  CHECK(thrown.has("bool"));
}

}  // namespace lockstep::test
