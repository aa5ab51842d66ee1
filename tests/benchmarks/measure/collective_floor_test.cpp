#include "measure/collective_floor.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "operations/operation.hpp"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

constexpr std::int64_t kPart = 48, kWhole = 3 * kPart;  // bytes
constexpr int kRoot = 1;

// Three ranks, of the host, with buffers of two operations.
struct Ranks {
  explicit Ranks(const std::string& name)
      : collective(*find_collective(name)),
        options(parse_options({name, "--replicas", "3"}, all_traits(),
                              [](const char*) -> const char* { return nullptr; })),
        groups(make_groups(options, Processes())),
        replicas(make_replicas(options, make_places(groups))) {
    for (Replica& replica : replicas) {
      replica.allocate(2 * kWhole);
      replica.place(0);
    }
    places.assign(replicas.begin(), replicas.end());
  }

  CollectiveFloor floor(PlacementKind placement) const {
    return CollectiveFloor(collective, groups, places,
                           {.counts = collective.counts(kWhole / 4, 3, 4),
                            .root = kRoot,
                            .placement = placement,
                            .slot_bytes = kWhole,
                            .num_slots = 2});
  }

  const Collective& collective;
  Options options;
  std::vector<Group> groups;
  std::vector<Replica> replicas;
  std::vector<RankBuffers> places;
};

}  // namespace

TEST_CASE("each rank copies half of what it must read and write, but for what is in place", "[benchmarks]") {
  struct Expected {
    const char* name;
    std::int64_t root, others, in_place_root, in_place_others;
  };
  const auto expected = GENERATE(values<Expected>({
      {"all_reduce", kWhole, kWhole, kWhole, kWhole},
      {"reduce", kWhole, kWhole / 2, kWhole, kWhole / 2},
      {"broadcast", kWhole, kWhole / 2, kWhole / 2, kWhole / 2},
      {"all_gather", 2 * kPart, 2 * kPart, 3 * kPart / 2, 3 * kPart / 2},
      {"reduce_scatter", 2 * kPart, 2 * kPart, 2 * kPart, 2 * kPart},
      {"gather", 2 * kPart, kPart / 2, kPart, kPart / 2},
      {"scatter", 2 * kPart, kPart / 2, kPart, kPart / 2},
      {"alltoall", kWhole, kWhole, kWhole, kWhole},
      {"sendrecv", kWhole, kWhole, kWhole, kWhole},
  }));
  INFO(expected.name);
  const Ranks ranks(expected.name);
  const CollectiveFloor apart = ranks.floor(PlacementKind::out_of_place);
  const CollectiveFloor in_place =
      ranks.floor(ranks.collective.has_in_place ? PlacementKind::in_place : PlacementKind::out_of_place);
  for (int rank = 0; rank < 3; ++rank) {
    INFO(rank);
    CHECK(apart.copied_bytes(rank) == (rank == kRoot ? expected.root : expected.others));
    CHECK(in_place.copied_bytes(rank) == (rank == kRoot ? expected.in_place_root : expected.in_place_others));
  }
  CHECK(apart.traffic_bytes() == 2 * (expected.root + 2 * expected.others));
  CHECK(in_place.traffic_bytes() == 2 * (expected.in_place_root + 2 * expected.in_place_others));
}

TEST_CASE("the copy goes to the operation's place in the other buffer, and no further", "[benchmarks]") {
  const Ranks ranks("all_gather");
  const Replica& replica = ranks.replicas[2];
  const std::int64_t operation = GENERATE(0, 1, 2);
  std::fill_n(replica.send, 2 * kWhole, std::byte{7});
  ranks.floor(PlacementKind::in_place).copy(replica, operation);
  replica.stream.synchronize();
  const std::int64_t begin = operation % 2 * kWhole;
  for (std::int64_t i = 0; i < 2 * kWhole; ++i) {
    INFO(i);
    REQUIRE(replica.receive[i] == (begin <= i && i < begin + 3 * kPart / 2 ? std::byte{7} : std::byte{0}));
  }
}

TEST_CASE("slices of threads are the whole, in multiples of the granularity", "[benchmarks]") {
  const std::int64_t size = GENERATE(0, 1, 63, 64, 1000);
  const int threads = GENERATE(1, 2, 3, 7);
  std::int64_t end = 0;
  for (int thread = 0; thread < threads; ++thread) {
    const Slice slice = slice_of(size, thread, threads, 64);
    CHECK(slice.begin == end);
    CHECK(slice.begin % 64 == 0);
    end = slice.end;
  }
  CHECK(end == size);
}
