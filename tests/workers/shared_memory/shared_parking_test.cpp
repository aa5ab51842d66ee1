#include "workers/shared_memory/shared_parking.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <catch2/catch_test_macros.hpp>

#include "support/process_team.hpp"

using lockstep::detail::SharedParking;

namespace {
struct Place {
  SharedParking parking;
  std::atomic<int> turn{0};
};
}  // namespace

TEST_CASE("processes wake each other", "[host]") {
  const lockstep::test::SharedWithForks<Place> place;
  lockstep::test::ProcessTeam team(3, [&](int process) {
    for (int turn = process; turn < 3000; turn += 3) {
      // As if there were no core for each: they sleep.
      place->parking.wait(1'000'000, [&] { return place->turn.load(std::memory_order_seq_cst) == turn; });
      place->turn.store(turn + 1, std::memory_order_seq_cst);
      place->parking.wake();
    }
  });
  CHECK(team.wait_for_all() == std::vector<std::string>(3));
  CHECK(place->turn == 3000);
}

TEST_CASE("a waiter that is killed harms nobody", "[host]") {
  const lockstep::test::SharedWithForks<Place> place;
  lockstep::test::ProcessTeam team(2, [&](int process) {
    if (process == 0)
      place->parking.wait(2, [&] {
        place->turn = 1;
        return false;
      });
    place->parking.wait(2, [&] { return place->turn.load(std::memory_order_seq_cst) == 2; });
  });
  while (place->turn != 1) std::this_thread::yield();
  ::kill(team.id(0), SIGKILL);
  CHECK(team.wait(0) == "signal 9");
  place->turn.store(2, std::memory_order_seq_cst);
  place->parking.wake();
  CHECK(team.wait(1) == "");
}

TEST_CASE("waiting ends at a deadline", "[host]") {
  SharedParking parking;
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
  CHECK_FALSE(parking.wait(
      2, [] { return false; }, soon));
  CHECK(std::chrono::steady_clock::now() >= soon);
  CHECK(parking.wait(
      2, [] { return true; }, soon));
}
