#include "strategy/mesh_places.hpp"

#include <limits>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

namespace {

constexpr PlaceNames kNames{"Table", "row", "seat"};

}  // namespace

TEST_CASE("lists are written with commas between", "[mesh][host]") {
  CHECK(listed({}).empty());
  CHECK(listed({3}) == "3");
  CHECK(listed({3, -1, 0}) == "3, -1, 0");
}

TEST_CASE("products stop at the largest int", "[mesh][host]") {
  constexpr int kMost = std::numeric_limits<int>::max();
  CHECK(saturated_product(6, 7) == 42);
  CHECK(saturated_product(kMost, 1) == kMost);
  CHECK(saturated_product(kMost, kMost) == kMost);
  CHECK(saturated_product(kMost, 0) == 0);
  CHECK(saturated_product(std::vector<int>{}) == 1);
  CHECK(saturated_product(std::vector{2, 3, 4}) == 24);
  CHECK(saturated_product(std::vector{1 << 16, 1 << 16, 1 << 16, 1 << 16, 1 << 16}) == kMost);
}

TEST_CASE("places are found with their group and member", "[mesh][host]") {
  const auto index = index_places({{{0, 1}, {1, 1}}, {{1, 0}, {0, 0}}}, {2, 2}, kNames);
  CHECK(index.size() == 4);
  CHECK(index.at({0, 1}) == std::pair(0, 0));
  CHECK(index.at({1, 1}) == std::pair(0, 1));
  CHECK(index.at({1, 0}) == std::pair(1, 0));
  CHECK(index.at({0, 0}) == std::pair(1, 1));
}

TEST_CASE("places of another form, outside the mesh or there twice are refused", "[mesh][host]") {
  CHECK_THROWS_MATCHES(index_places({}, {2}, kNames), InvalidArgument,
                       says("Table", "no seat", "[rows][seats][axes]"));
  CHECK_THROWS_MATCHES(index_places({{}, {}}, {2}, kNames), InvalidArgument, says("no seat"));
  CHECK_THROWS_MATCHES(index_places({{{0}}, {}}, {2}, kNames), InvalidArgument,
                       says("row 1 has 0 seats, row 0 has 1"));
  CHECK_THROWS_MATCHES(index_places({{{0, 0}, {0}}}, {2, 2}, kNames), InvalidArgument,
                       says("seat 1 of row 0 at (0) has 1 coordinates", "mesh [2, 2] has rank 2"));
  CHECK_THROWS_MATCHES(index_places({{{0, 2}}}, {3, 2}, kNames), InvalidArgument,
                       says("(0, 2) is outside the mesh [3, 2] on axis 1", "from 0 to 1"));
  CHECK_THROWS_MATCHES(index_places({{{-1, 0}}}, {3, 2}, kNames), InvalidArgument,
                       says("(-1, 0) is outside the mesh [3, 2] on axis 0"));
  CHECK_THROWS_MATCHES(index_places({{{0}, {1}}, {{2}, {1}}}, {3}, kNames), InvalidArgument,
                       says("seat 1 of row 1 at (1) is where seat 1 of row 0 is", "a place of its own"));
}
