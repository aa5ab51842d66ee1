#include "detail/float_environment.hpp"

#include <catch2/catch_test_macros.hpp>

#include "support/float_state.hpp"

using lockstep::detail::FloatEnvironment;
using lockstep::test::FloatState;
using lockstep::test::FloatStateScope;

namespace {

constexpr float kNearest = 1.0f / 3;  // above a third: only rounding towards zero gives another

}  // namespace

TEST_CASE("the library rounds to nearest, and gives back what the thread had", "[detail][host]") {
  for (const FloatState state : {FloatState::usual, FloatState::upward, FloatState::towards_zero}) {
    const FloatStateScope scope(state);
    const float before = FloatStateScope::third();
    CHECK((before == kNearest) == (state != FloatState::towards_zero));
    {
      const FloatEnvironment outer;
      CHECK(FloatStateScope::third() == kNearest);
      { const FloatEnvironment inner; }
      CHECK(FloatStateScope::third() == kNearest);
    }
    CHECK(FloatStateScope::third() == before);
  }
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST_CASE("the library keeps subnormals, and gives back what the thread had", "[detail][host]") {
  CHECK_FALSE(FloatStateScope::flushes());
  const FloatStateScope scope(FloatState::flushing);
  CHECK(FloatStateScope::flushes());
  {
    const FloatEnvironment own;
    CHECK_FALSE(FloatStateScope::flushes());
  }
  CHECK(FloatStateScope::flushes());
}
#endif
