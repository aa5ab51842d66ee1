#include "workers/control/session.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace lockstep::detail::control;

TEST_CASE("a worker whose start was refused hears that the leader leaves", "[workers][host]") {
  Session session(1, {"worker 0", "worker 1"});
  session.deliver(Refused{ErrorKind::invalid_argument, "two processes are worker 2"});
  CHECK_FALSE(session.is_over());
  session.deliver(Left{0});
  CHECK(session.is_over());
  CHECK(session.refused()->text == "two processes are worker 2");
}

TEST_CASE("a leader that leaves before the start ends it", "[workers][host]") {
  Session session(1, {"worker 0", "worker 1"});
  session.deliver(Left{0});
  CHECK(session.is_over());
  REQUIRE(session.refused());
  CHECK(session.refused()->text == "The start of the workers: worker 0 was lost: it ended the start");
}
