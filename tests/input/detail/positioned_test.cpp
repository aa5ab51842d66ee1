#include <optional>
#include <stdexcept>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/detail/positioned.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using detail::Positioned;
using test::says;

namespace {

/// 0, 1, 2, 3; the call for 1 throws.
struct Counted {
  int* num_calls;
  int next = 0;
  std::optional<int> operator()() {
    ++*num_calls;
    const int value = next++;
    if (value == 1) throw std::runtime_error("1");
    return value < 4 ? std::optional(value) : std::nullopt;
  }
};

/// The same with a position of its own.
struct Placed : Counted {
  readers::Position position() const { return {static_cast<std::uint64_t>(next), 7}; }
  void seek(const readers::Position& position) { next = static_cast<int>(position[0]); }
};

}  // namespace

TEST_CASE("a callable without a position is called again, and what it threw is passed over",
          "[input][host]") {
  int num_calls = 0;
  Positioned<Counted> first(Counted{&num_calls});
  CHECK(first() == 0);
  CHECK_THROWS_AS(first(), std::runtime_error);
  CHECK(first() == 2);
  CHECK(first.position() == readers::Position{3});
  num_calls = 0;
  Positioned<Counted> second(Counted{&num_calls});
  second.seek(first.position());
  CHECK(num_calls == 3);
  CHECK(second() == 3);
  CHECK_FALSE(second());
  Positioned<Counted> beyond(Counted{&num_calls});
  beyond.seek({1000});  // ends where the callable does
  CHECK_THROWS_MATCHES(beyond.seek({1, 2}), InvalidArgument, says("a generator's position has 2 numbers"));
}

TEST_CASE("a callable with a position goes there at once", "[input][host]") {
  int num_calls = 0;
  Positioned<Placed> placed(Placed{{&num_calls}});
  CHECK(placed() == 0);
  CHECK(placed.position() == readers::Position{1, 7});
  Positioned<Placed> later(Placed{{&num_calls}});
  later.seek({2, 7});
  CHECK(num_calls == 1);
  CHECK(later() == 2);
}
