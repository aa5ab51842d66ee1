#include "host/shared_memory/slot_ring.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/replicas.hpp"
#include "support/socket_group.hpp"

using namespace lockstep;
using host::SlotRing;

namespace {
std::shared_ptr<detail::SharedSegment> segment_for(const std::vector<int>& num_ranks) {
  const test::SocketStar star(1);
  test::SocketGroup alone(star, 0);
  return std::make_shared<detail::SharedSegment>(alone, "a test", SlotRing::part_bytes(num_ranks));
}
}  // namespace

TEST_CASE("the slots of all ranks are in their process's part, and apart", "[host]") {
  const auto num_ranks =
      GENERATE(std::vector<int>{1, 1}, std::vector<int>{2, 3, 1}, std::vector<int>(40, 64));
  const auto segment = segment_for(num_ranks);
  const SlotRing ring(segment, num_ranks);
  const int n = std::accumulate(num_ranks.begin(), num_ranks.end(), 0);
  REQUIRE(ring.num_ranks() == n);
  REQUIRE(ring.chunk_bytes() % (64 * n) == 0);
  std::vector<std::pair<const std::byte*, const std::byte*>> places;
  int rank = 0;
  bool inside = true;
  for (std::size_t process = 0; process < num_ranks.size(); ++process) {
    const auto part = segment->part(static_cast<int>(process));
    for (int i = 0; i < num_ranks[process]; ++i, ++rank)
      for (std::uint64_t step = 0; step < 3; ++step) {
        const std::byte* const begin = ring.chunk(rank, step, 1);
        const std::byte* const end = ring.result(rank, step) + ring.chunk_bytes() / n;
        inside &= begin >= part.data() && end <= part.data() + part.size();
        inside &= ring.chunk(rank, step, ring.chunk_bytes()) + ring.chunk_bytes() == ring.result(rank, step);
        inside &= ring.chunk(rank, step + 3, 1) == begin;
        places.emplace_back(begin, end);
      }
  }
  CHECK(inside);
  std::ranges::sort(places);
  CHECK(std::ranges::adjacent_find(places, [](const auto& a, const auto& b) { return a.second > b.first; }) ==
        places.end());
}

TEST_CASE("a step is complete when all ranks have published it", "[host]") {
  const std::vector<int> num_ranks = {1, 1};
  SlotRing ring(segment_for(num_ranks), num_ranks);
  CHECK(ring.await(0, 2));
  ring.publish(0, 1);
  test::on_replicas(2, [&](int thread) {
    if (thread == 0) {
      ring.publish(1, 1);
      ring.wake();
    } else {
      ring.await(1, 2);
    }
  });
  CHECK(ring.await(1, 2));
  test::on_replicas(2, [&](int thread) {
    if (thread == 0)
      ring.abort();
    else
      ring.await(2, 2);
  });
  CHECK_FALSE(ring.await(2, 2));
}
