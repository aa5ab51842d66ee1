#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/error.hpp>
#include <lockstep/shape.hpp>

using namespace lockstep;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

std::vector<std::int64_t> strides(const Shape& shape) {
  const auto all = shape.contiguous_strides();
  return {all.begin(), all.begin() + shape.rank()};
}

}  // namespace

TEST_CASE("a shape knows its rank, extents and size", "[shape][host]") {
  const Shape shape{4, 3, 2};
  CHECK(shape.rank() == 3);
  CHECK(shape.size() == 24);
  CHECK_FALSE(shape.empty());
  CHECK(shape[0] == 4);
  CHECK(shape[2] == 2);
  CHECK(shape[-1] == 2);
  CHECK(shape[-3] == 4);
  CHECK(std::vector(shape.begin(), shape.end()) == std::vector<std::int64_t>{4, 3, 2});
  CHECK(Shape(std::vector<std::int64_t>{4, 3, 2}) == shape);
}

TEST_CASE("a shape is made of a braced list in parentheses", "[shape][host]") {
  const std::int64_t rows = 4;
  const std::size_t columns = 6;
  CHECK(Shape({1, 6}) == Shape(1, 6));
  CHECK(Shape({7}) == Shape(7));
  CHECK(Shape({rows, 6}) == Shape(4, 6));
  CHECK(Shape({rows, columns}) == Shape(4, 6));
  CHECK(Shape({}) == Shape());
  CHECK(Shape(std::array<std::int64_t, 2>{2, 3}) == Shape(2, 3));
}

TEST_CASE("a scalar's shape has rank 0 and one element", "[shape][host]") {
  CHECK(Shape().rank() == 0);
  CHECK(Shape().size() == 1);
  CHECK(Shape() == Shape(std::vector<std::int64_t>{}));
  CHECK(Shape() != Shape(1));
}

TEST_CASE("shapes are equal when rank and extents are", "[shape][host]") {
  CHECK(Shape(2, 3) == Shape(2u, std::int64_t(3)));
  CHECK(Shape(2, 3) != Shape(3, 2));
  CHECK(Shape(2, 3) != Shape(2, 3, 1));
  CHECK(Shape(0, 3) != Shape(3, 0));
}

TEST_CASE("shapes print as lists", "[shape][host]") {
  CHECK(to_string(Shape(4, 3)) == "[4, 3]");
  CHECK(to_string(Shape(7)) == "[7]");
  CHECK(to_string(Shape()) == "[]");
  std::ostringstream out;
  out << Shape(0, 2);
  CHECK(out.str() == "[0, 2]");
}

TEST_CASE("a negative extent is refused", "[shape][host]") {
  CHECK_THROWS_MATCHES(Shape(4, -1), InvalidArgument,
                       MessageMatches(ContainsSubstring("extent -1 in [4, -1] is negative. Pass")));
  CHECK_THROWS_AS(Shape(0, -1), InvalidArgument);
  CHECK_THROWS_AS(Shape(std::numeric_limits<std::int64_t>::min()), InvalidArgument);
}

TEST_CASE("a rank over 8 is refused", "[shape][host]") {
  CHECK(Shape(1, 1, 1, 1, 1, 1, 1, 2).rank() == 8);
  CHECK_THROWS_MATCHES(Shape(1, 1, 1, 1, 1, 1, 1, 1, 2), InvalidArgument,
                       MessageMatches(ContainsSubstring("rank 9 of [1, 1, 1, 1, 1, 1, 1, 1, 2]") &&
                                      ContainsSubstring("8. Join axes.")));
}

TEST_CASE("more elements than 64 bits address are refused", "[shape][host]") {
  CHECK(Shape(kHuge / 8).size() == kHuge / 8);
  CHECK_THROWS_MATCHES(
      Shape(kHuge / 8 + 1), InvalidArgument,
      MessageMatches(ContainsSubstring("elements") && ContainsSubstring(". Pass smaller extents.")));
  CHECK_THROWS_MATCHES(Shape(std::int64_t(1) << 32, std::int64_t(1) << 32), InvalidArgument,
                       MessageMatches(ContainsSubstring("[4294967296, 4294967296]")));
  CHECK_THROWS_AS(Shape(kHuge, kHuge, kHuge), InvalidArgument);
  // The product wraps around to a small number.
  CHECK_THROWS_AS(Shape(std::int64_t(1) << 40, std::int64_t(1) << 40, 1), InvalidArgument);
}

TEST_CASE("P31 a zero extent makes a shape empty whatever the others are", "[shape][host]") {
  CHECK(Shape(1, 0, 2).size() == 0);
  CHECK(Shape(0).empty());
  CHECK(Shape(kHuge, kHuge, 0).size() == 0);
  CHECK(Shape(0, kHuge, kHuge).size() == 0);
  CHECK(Shape(kHuge, 0, kHuge)[2] == kHuge);
}

TEST_CASE("P34 an axis outside the rank is refused with the rank in the text", "[shape][host]") {
  const Shape shape{4, 3, 2};
  CHECK(shape.normalize_axis(0, "sum") == 0);
  CHECK(shape.normalize_axis(2, "sum") == 2);
  CHECK(shape.normalize_axis(-1, "sum") == 2);
  CHECK(shape.normalize_axis(-3, "sum") == 0);
  for (const std::int64_t axis : {std::int64_t(3), std::int64_t(-4), kHuge, -kHuge}) {
    CHECK_THROWS_MATCHES(shape.normalize_axis(axis, "sum"), InvalidArgument,
                         MessageMatches(ContainsSubstring("sum: axis " + std::to_string(axis)) &&
                                        ContainsSubstring("[-3, 3)") && ContainsSubstring("rank 3") &&
                                        ContainsSubstring("[4, 3, 2]") && ContainsSubstring(". Count axes")));
  }
  CHECK_THROWS_MATCHES(Shape().normalize_axis(0, "gather"), InvalidArgument,
                       MessageMatches(ContainsSubstring("gather: axis 0 of a scalar, which has rank 0") &&
                                      ContainsSubstring(". Reshape it")));
  CHECK_THROWS_AS(shape[3], InvalidArgument);
}

TEST_CASE("with and without change one axis", "[shape][host]") {
  const Shape shape{2, 3, 4};
  CHECK(shape.with(0, 7) == Shape(7, 3, 4));
  CHECK(shape.with(2, 0) == Shape(2, 3, 0));
  CHECK(shape.with(2, 0).size() == 0);
  CHECK(shape.with(-1, 5) == Shape(2, 3, 5));
  CHECK(shape.without(0) == Shape(3, 4));
  CHECK(shape.without(1) == Shape(2, 4));
  CHECK(shape.without(2) == Shape(2, 3));
  CHECK(Shape(9).without(0) == Shape());
  CHECK(Shape(2, 0).without(1).size() == 2);
  CHECK(shape == Shape(2, 3, 4));
  CHECK_THROWS_MATCHES(shape.with(3, 1), InvalidArgument,
                       MessageMatches(ContainsSubstring("Shape::with: axis 3")));
  CHECK_THROWS_MATCHES(Shape().without(0), InvalidArgument,
                       MessageMatches(ContainsSubstring("Shape::without")));
  CHECK_THROWS_AS(shape.with(0, -2), InvalidArgument);
  // A zero may have hidden what does not fit.
  CHECK_THROWS_AS(Shape(kHuge, 0, kHuge).without(1), InvalidArgument);
}

TEST_CASE("contiguous strides are row-major", "[shape][host]") {
  CHECK(strides(Shape(2, 3, 4)) == std::vector<std::int64_t>{12, 4, 1});
  CHECK(strides(Shape(5)) == std::vector<std::int64_t>{1});
  CHECK(strides(Shape()).empty());
  CHECK(strides(Shape(2, 0, 3)) == std::vector<std::int64_t>{0, 3, 1});
  CHECK(strides(Shape(0, kHuge, kHuge)).back() == 1);
}

TEST_CASE("axes are normalised, sorted and each named once", "[shape][host]") {
  const Shape shape{2, 3, 4};
  CHECK(Axes().empty());
  CHECK(Axes().normalized(shape, "sum").empty());
  CHECK(Axes(1).normalized(shape, "sum") == std::vector{1});
  CHECK(Axes(-1).normalized(shape, "sum") == std::vector{2});
  CHECK(Axes({2, 0}).normalized(shape, "sum") == std::vector{0, 2});
  CHECK(Axes({-1, -3, 1}).normalized(shape, "sum") == std::vector{0, 1, 2});
  const Axes one(std::vector<std::int64_t>{1});
  CHECK(one.values().size() == 1);
  CHECK_THROWS_MATCHES(
      Axes({0, -3}).normalized(shape, "mean"), InvalidArgument,
      MessageMatches(ContainsSubstring("mean: axes [0, -3] of shape [2, 3, 4] name axis 0 twice. Name")));
  CHECK_THROWS_MATCHES(Axes({0, 3}).normalized(shape, "mean"), InvalidArgument,
                       MessageMatches(ContainsSubstring("mean: axis 3")));
}
