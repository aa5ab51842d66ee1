#include "detail/barrier.hpp"

#include <atomic>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/replicas.hpp"

using lockstep::detail::Barrier;
using lockstep::test::on_replicas;
using namespace std::chrono_literals;

TEST_CASE("a barrier lets nobody pass before all have arrived", "[detail][host]") {
  const int n = GENERATE(1, 2, 3, 16);  // the last are more than there are cores: they sleep
  const int rounds = 300;
  Barrier barrier(n);
  std::atomic<int> arrived = 0, early = 0;
  on_replicas(n, [&](int) {
    for (int round = 1; round <= rounds; ++round) {
      ++arrived;
      if (!barrier.arrive_and_wait(1)) ++early;
      if (arrived < round * n) ++early;
    }
  });
  REQUIRE(early == 0);
  REQUIRE(arrived == rounds * n);
  REQUIRE(barrier.generation() == rounds);
}

TEST_CASE("a thread may stand for several parties of a barrier", "[detail][host]") {
  Barrier barrier(5);
  std::atomic<int> passed = 0;
  on_replicas(2, [&](int replica) {
    for (int round = 0; round < 100; ++round) passed += barrier.arrive_and_wait(replica == 0 ? 2 : 3) ? 1 : 0;
  });
  REQUIRE(passed == 200);
  REQUIRE_FALSE(barrier.arrive(4).is_last);
  REQUIRE(barrier.arrive(1).is_last);
}

TEST_CASE("a failed barrier lets nobody pass until it is reset", "[detail][host]") {
  Barrier barrier(3);
  const bool asleep = GENERATE(false, true);
  std::atomic<int> passed = 0;
  on_replicas(3, [&](int replica) {
    if (replica < 2) {
      passed += barrier.arrive_and_wait(1) ? 1 : 0;
      return;
    }
    if (asleep) std::this_thread::sleep_for(20ms);  // the others have stopped spinning by then
    barrier.fail();
  });
  REQUIRE(passed == 0);
  REQUIRE(barrier.has_failed());
  // However often it is tried.
  for (int i = 0; i < 100'000; ++i) {
    if (barrier.arrive_and_wait(3)) ++passed;
  }
  REQUIRE(passed == 0);
  REQUIRE(barrier.has_failed());
  barrier.reset();
  REQUIRE(barrier.arrive_and_wait(3));
  REQUIRE(barrier.generation() == 1);
}

TEST_CASE("a barrier that fails between the last arrival and its release lets nobody pass",
          "[detail][host]") {
  Barrier barrier(2);
  const Barrier::Ticket first = barrier.arrive(1);
  const Barrier::Ticket last = barrier.arrive(1);
  REQUIRE(last.is_last);
  barrier.fail();
  REQUIRE_FALSE(barrier.release(last));
  REQUIRE(barrier.wait(first) == Barrier::Outcome::failed);
}

TEST_CASE("waiting at a barrier ends at the deadline, and who gives up decides for all", "[detail][host]") {
  Barrier barrier(2);
  const Barrier::Ticket ticket = barrier.arrive(1);
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(barrier.wait(ticket, start + 10ms) == Barrier::Outcome::timed_out);
  REQUIRE(std::chrono::steady_clock::now() - start >= 10ms);
  SECTION("while somebody is missing, a waiter can fail the barrier once") {
    REQUIRE(barrier.fail_if_incomplete(ticket));
    REQUIRE_FALSE(barrier.fail_if_incomplete(ticket));
    REQUIRE(barrier.arrive(1).failed);
  }
  SECTION("when all are there, it cannot") {
    const Barrier::Ticket last = barrier.arrive(1);
    REQUIRE_FALSE(barrier.fail_if_incomplete(ticket));
    REQUIRE(barrier.release(last));
    REQUIRE_FALSE(barrier.fail_if_incomplete(ticket));
    REQUIRE(barrier.wait(ticket) == Barrier::Outcome::passed);
  }
}
