#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/collectives/fusion.hpp>
#include <lockstep/error.hpp>

using namespace lockstep;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using Packs = std::vector<std::vector<std::size_t>>;
using Sizes = std::vector<std::int64_t>;

Packs pack(const std::vector<std::size_t>& bytes, std::int64_t limit) { return pack_by_bytes(bytes, limit); }

}  // namespace

TEST_CASE("pack-by-size a pack is closed once it holds more than the limit", "[collectives][host]") {
  CHECK(pack({128, 32, 800, 4}, 200) == Packs{{0, 1, 2}, {3}});
}

TEST_CASE("pack-zero-bytes no limit makes one pack, a negative one is refused", "[collectives][host]") {
  CHECK(pack({16, 16}, 0) == Packs{{0, 1}});
  CHECK_THROWS_MATCHES(pack({16, 16}, -1), InvalidArgument,
                       MessageMatches(ContainsSubstring("bytes_per_pack is -1")));
}

TEST_CASE("pack-by-count the last pack takes the rest", "[collectives][host]") {
  CHECK(pack_by_count(10, 3) == Sizes{3, 3, 4});
  CHECK(pack_by_count(10, 0) == Sizes{10});
  CHECK_THROWS_MATCHES(pack_by_count(10, -1), InvalidArgument,
                       MessageMatches(ContainsSubstring("num_packs is -1")));
}

TEST_CASE("packs by size at the edges of the limit", "[collectives][host]") {
  CHECK(pack({}, 0).empty());
  CHECK(pack({}, 10).empty());
  CHECK(pack({5}, 1) == Packs{{0}});
  // Exactly the limit is not more than the limit.
  CHECK(pack({10, 10, 10}, 10) == Packs{{0, 1}, {2}});
  CHECK(pack({11, 11, 11}, 10) == Packs{{0}, {1}, {2}});
  CHECK(pack({0, 0, 0, 1}, 1) == Packs{{0, 1, 2, 3}});
  CHECK(pack({2, 0, 2, 0}, 1) == Packs{{0}, {1, 2}, {3}});
  CHECK(pack({100, 100}, std::numeric_limits<std::int64_t>::max()) == Packs{{0, 1}});
}

TEST_CASE("packs hold every value once, in order", "[collectives][host]") {
  const std::int64_t limit = GENERATE(0, 1, 7, 64, 1000);
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < 101; ++i) bytes.push_back(i * 37 % 50);
  std::size_t next = 0;
  for (const auto& members : pack(bytes, limit)) {
    REQUIRE_FALSE(members.empty());
    for (const std::size_t member : members) CHECK(member == next++);
  }
  CHECK(next == bytes.size());
}

TEST_CASE("packs by count add up to the whole", "[collectives][host]") {
  const std::int64_t n = GENERATE(0, 1, 7, 12, 1025);
  const int num_packs = GENERATE(1, 2, 3, 4, 7);
  const Sizes sizes = pack_by_count(n, num_packs);
  CHECK(sizes.size() == static_cast<std::size_t>(num_packs));
  CHECK(std::accumulate(sizes.begin(), sizes.end(), std::int64_t(0)) == n);
  CHECK(sizes.front() == (num_packs == 1 ? n : n / num_packs));
  CHECK(pack_by_count(2, 3) == Sizes{0, 0, 2});
  CHECK(pack_by_count(0, 0) == Sizes{0});
  CHECK_THROWS_MATCHES(pack_by_count(-1, 2), InvalidArgument,
                       MessageMatches(ContainsSubstring("number of elements is -1")));
}
