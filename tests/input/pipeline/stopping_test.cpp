#include "input/pipeline/stopping.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace lockstep::detail;

TEST_CASE("a thread's code is stopped by the current token", "[input][host]") {
  check_stop();
  std::stop_source outer, inner;
  {
    const StopScope scope(outer.get_token());
    check_stop();
    {
      const StopScope nested(inner.get_token());
      outer.request_stop();
      check_stop();
      inner.request_stop();
      CHECK_THROWS_AS(check_stop(), Stopped);
    }
    CHECK(current_stop_token().stop_requested());
    CHECK_THROWS_AS(check_stop(), Stopped);
  }
  CHECK_FALSE(current_stop_token().stop_possible());
  check_stop();
}
