#include <algorithm>
#include <numeric>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/sharding.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;
using Sizes = std::vector<std::int64_t>;

TEST_CASE("balanced sizes of a step add up to the global batch and differ by at most one row",
          "[input][host]") {
  const int num_workers = GENERATE(range(1, 5));
  const int replicas_per_worker = GENERATE(range(1, 4));
  const std::int64_t global_batch = GENERATE(1, 2, 3, 5, 8, 13, 64);
  const int num_replicas = num_workers * replicas_per_worker;
  std::vector<Sizes> cycles;
  for (int worker = 0; worker < num_workers; ++worker)
    cycles.push_back(balanced_batch_sizes(global_batch, InputContext(num_workers, worker, num_replicas)));
  for (int step = 0; step < num_workers; ++step) {
    Sizes sizes;
    for (const Sizes& cycle : cycles)
      sizes.insert(sizes.end(), cycle.begin() + step * replicas_per_worker,
                   cycle.begin() + (step + 1) * replicas_per_worker);
    CHECK(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == global_batch);
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    CHECK(*most - *least <= 1);
  }
}

TEST_CASE("balanced sizes of no rows are all 0", "[input][host]") {
  CHECK(balanced_batch_sizes(0, InputContext(1, 0, 2)) == Sizes{0, 0});
}

TEST_CASE("balanced sizes of fewer rows, or of replicas that workers cannot share, are refused",
          "[input][host]") {
  CHECK_THROWS_MATCHES(balanced_batch_sizes(-1, InputContext()), InvalidArgument,
                       says("a global batch of -1 rows", "at least 0"));
  CHECK_THROWS_MATCHES(balanced_batch_sizes(4, InputContext(2, 0, 3)), InvalidArgument,
                       says("3 replicas", "2 input pipelines"));
}
