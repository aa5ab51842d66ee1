#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "collectives/meeting.hpp"
#include "support/matchers.hpp"
#include "support/replicas.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using detail::Rendezvous;
using test::make_rendezvous;
using test::on_replicas;
using test::outcome;
using test::says;

TEST_CASE("P22 who waits for a rank that has left is told which one, where and in which call",
          "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(3);
  std::vector<std::string> messages(3), later(3);
  on_replicas(3, [&](int rank) {
    outcome(rendezvous, rank, "broadcast");
    if (rank == 1) return rendezvous.leave(1);
    messages[rank] = outcome(rendezvous, rank);
    later[rank] = outcome(rendezvous, rank, "merge_call");
  });
  const std::string rest =
      ", call 1: replica 1 (CPU:1) has returned without it. Make the same calls on every replica.";
  REQUIRE(messages == std::vector<std::string>{"all_reduce(sum)" + rest, "", "all_reduce(sum)" + rest});
  REQUIRE(later == std::vector<std::string>{"merge_call" + rest, "", "merge_call" + rest});
  REQUIRE_THROWS_AS(rendezvous.meet(0, {"x"}, {}, 0ms), detail::MissingRank);
}

TEST_CASE("a rank that leaves after a meeting does not spoil it for the slow", "[collectives][host]") {
  for (int round = 0; round < 200; ++round) {
    Rendezvous rendezvous = make_rendezvous(3);
    std::vector<std::string> messages(3);
    on_replicas(3, [&](int rank) {
      messages[rank] = outcome(rendezvous, rank);
      rendezvous.leave(rank);
    });
    REQUIRE(messages == std::vector<std::string>(3));
  }
}

TEST_CASE("P21 a rank that fails releases the others, also those that come later", "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(3);
  std::vector<std::string> messages(3);
  on_replicas(3, [&](int rank) {
    if (rank == 1)
      rendezvous.fail(1);
    else
      messages[rank] = outcome(rendezvous, rank);
  });
  REQUIRE(messages == std::vector<std::string>{"released", "", "released"});
  REQUIRE(outcome(rendezvous, 0) == "released");

  SECTION("a failure is told rather than that a rank has left") {
    rendezvous.reset();
    rendezvous.leave(0);
    rendezvous.fail(1);
    rendezvous.leave(2);
    REQUIRE(outcome(rendezvous, 2) == "released");
  }
  SECTION("after a reset all can meet, and calls count from 0") {
    rendezvous.reset();
    on_replicas(3, [&](int rank) { messages[rank] = outcome(rendezvous, rank); });
    REQUIRE(messages == std::vector<std::string>(3));
    rendezvous.leave(2);
    REQUIRE(outcome(rendezvous, 0).starts_with("all_reduce(sum), call 1: replica 2"));
    rendezvous.reset();
    rendezvous.leave(2);
    REQUIRE(outcome(rendezvous, 0).starts_with("all_reduce(sum), call 0: replica 2"));
  }
}

TEST_CASE("a meeting is complete for all ranks, or for none, when the group fails meanwhile",
          "[collectives][host]") {
  const int n = 3;
  const bool times_out = GENERATE(false, true);
  const auto start = std::chrono::steady_clock::now();
  const auto has_time = [&] { return std::chrono::steady_clock::now() - start < 10s; };
  for (int round = 0; round < 20 || (round < 500 && has_time()); ++round) {
    Rendezvous rendezvous = make_rendezvous(n);
    std::vector<int> met(n, 0);
    on_replicas(n + 1, [&](int thread) {
      if (thread == n) {
        if (!times_out) rendezvous.abort("enough");
        return;
      }
      if (times_out && thread == 2) std::this_thread::sleep_for(std::chrono::microseconds(900 + round % 300));
      while (met[thread] < 1000 && outcome(rendezvous, thread, "meet", times_out ? 1ms : 0ms).empty())
        ++met[thread];
    });
    REQUIRE(met == std::vector<int>(n, met[0]));
  }
}

TEST_CASE("P44 a missing rank is named when the time is over", "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(3);
  std::vector<std::string> messages(3);
  const auto start = std::chrono::steady_clock::now();
  on_replicas(3, [&](int rank) {
    outcome(rendezvous, rank);
    if (rank < 2) messages[rank] = outcome(rendezvous, rank, "all_reduce(sum)", 50ms);
  });
  const auto elapsed = std::chrono::steady_clock::now() - start;
  REQUIRE(elapsed >= 50ms);
  REQUIRE(elapsed < 20s);
  const std::string expected =
      "all_reduce(sum), call 1: not all replicas arrived within 50 ms. Present: replica 0 (CPU:0), replica 1 "
      "(CPU:1); "
      "missing: replica 2 (CPU:2), whose last call was call 0, all_reduce(sum). Make the same calls on every "
      "replica, or allow more time.";
  REQUIRE(messages == std::vector<std::string>{expected, expected, ""});
  // The late one is told the same.
  REQUIRE(outcome(rendezvous, 2) == expected);
  // Who calls again is told that it is no use.
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE_THROWS_MATCHES(rendezvous.meet(rank, {"all_gather"}, {}, 0ms), CollectiveAborted,
                           says("all_gather: the group has failed: " + expected, "Make a new Communicator"));
  }
  rendezvous.reset();
  on_replicas(3, [&](int rank) { messages[rank] = outcome(rendezvous, rank, "all_reduce(sum)", 60s); });
  REQUIRE(messages == std::vector<std::string>(3));
}

TEST_CASE("a time limit may be as long as a duration gets", "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(2);
  std::vector<std::string> messages(2);
  on_replicas(2, [&](int rank) {
    messages[rank] = outcome(rendezvous, rank, "all_reduce(sum)", std::chrono::milliseconds::max());
  });
  REQUIRE(messages == std::vector<std::string>(2));
}

TEST_CASE("an aborted group stays aborted, and says why", "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(2);
  std::vector<std::string> messages(2);
  on_replicas(2, [&](int rank) {
    if (rank == 0)
      messages[0] = outcome(rendezvous, 0);
    else
      rendezvous.abort("a GPU was lost");
  });
  const std::string expected =
      "all_reduce(sum): the group was aborted: a GPU was lost. Make a new Communicator, or strategy.";
  REQUIRE(messages[0] == expected);
  REQUIRE(rendezvous.is_aborted());
  rendezvous.abort("another cause");
  rendezvous.fail(1);
  rendezvous.reset();
  REQUIRE(rendezvous.is_aborted());
  REQUIRE(outcome(rendezvous, 1) == expected);
  REQUIRE_THROWS_AS(rendezvous.meet(0, {"x"}, {}, 0ms), CollectiveAborted);
}
