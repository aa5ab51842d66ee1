#include "collectives/rendezvous.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
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
using detail::Arrival;
using detail::Rendezvous;
using test::make_rendezvous;
using test::on_replicas;
using test::outcome;
using test::says;

// A thread is missing, has failed, or calls something else: an error's context says which, as the message
// does.
TEST_CASE("a meeting's errors can be read by programs", "[collectives][host]") {
  Rendezvous rendezvous({"rank 0 (CPU:2, CPU:3)", "rank 1 (CPU:4, CPU:5)"}, "rank");
  const auto context_of = [&](int rank, std::chrono::milliseconds timeout = 0ms) {
    try {
      rendezvous.meet(rank, {"all_reduce(sum)"}, {}, timeout);
    } catch (const Error& error) {
      const std::string message = error.what();
      CAPTURE(message);
      CHECK(error.context().operation == "all_reduce");
      CHECK_FALSE(error.context().hint.empty());
      CHECK(message.ends_with(" " + error.context().hint));
      CHECK(std::string_view(error.context().location.file).find("/collectives/rendezvous") !=
            std::string_view::npos);
      CHECK(error.context().location.line > 0);
      return error.context();
    }
    FAIL("nothing was thrown");
    return ErrorContext();
  };
  SECTION("the missing one of a time-out, and of what follows") {
    for (const int caller : {0, 0}) {
      const ErrorContext context = context_of(caller, 1ms);
      CHECK(context.replica == 1);
      CHECK(context.device == "CPU:4");
    }
  }
  SECTION("one that has left") {
    rendezvous.leave(1);
    CHECK(context_of(0).replica == 1);
    CHECK(context_of(0).device == "CPU:4");
  }
  SECTION("the caller, where the group was aborted") {
    rendezvous.abort("a GPU was lost");
    for (const int caller : {0, 1}) {
      CHECK(context_of(caller).replica == caller);
      CHECK(context_of(caller).device == (caller == 0 ? "CPU:2" : "CPU:4"));
    }
  }
  SECTION("one that two threads drive") {
    const int ranks[] = {1};
    const Rendezvous::RankLock rank_lock(rendezvous, ranks, "broadcast");
    CHECK(context_of(1).replica == 1);
    CHECK(context_of(1).device == "CPU:4");
  }
  SECTION("one that calls something else") {
    std::vector<ErrorContext> contexts(2);
    on_replicas(2, [&](int rank) {
      try {
        rendezvous.meet(rank, {rank == 0 ? "all_gather" : "all_reduce(max)"}, {}, 0ms);
      } catch (const CollectiveMismatch& error) {
        contexts[rank] = error.context();
      }
    });
    for (const ErrorContext& context : contexts) {
      CHECK(context.operation == "all_reduce");
      CHECK(context.replica == 1);
      CHECK(context.device == "CPU:4");
    }
  }
}

TEST_CASE("ranks meet once for each operation, and see what the others brought", "[collectives][host]") {
  const int n = 4, rounds = 500;
  Rendezvous rendezvous = make_rendezvous(n);
  REQUIRE(rendezvous.num_ranks() == n);
  REQUIRE(rendezvous.label(2) == "replica 2 (CPU:2)");
  std::atomic<int> wrong = 0, checks = 0;
  std::vector<std::vector<int>> payloads(n, std::vector<int>(rounds));
  on_replicas(n, [&](int rank) {
    for (int round = 0; round < rounds; ++round) {
      int& mine = payloads[rank][round];
      mine = 1000 * round + rank;
      rendezvous.meet(
          rank, {.operation = "meet", .payload = &mine},
          [&](std::span<const Arrival* const> arrivals) {
            ++checks;
            for (int other = 0; other < n; ++other)
              if (*static_cast<const int*>(arrivals[other]->payload) != 1000 * round + other) ++wrong;
          },
          0ms);
      for (int other = 0; other < n; ++other)
        if (*static_cast<const int*>(rendezvous.arrival(other, rank).payload) != 1000 * round + other)
          ++wrong;
    }
  });
  REQUIRE(wrong == 0);
  REQUIRE(checks == rounds);
}

TEST_CASE("a thread may bring several ranks to a meeting", "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(3);
  const int outer[] = {2, 0}, inner[] = {1}, values[] = {0, 10, 20};
  std::atomic<int> wrong = 0;
  on_replicas(2, [&](int thread) {
    for (int round = 0; round < 100; ++round) {
      const Arrival both[] = {{.operation = "meet", .payload = &values[2]},
                              {.operation = "meet", .payload = &values[0]}};
      const Arrival one[] = {{.operation = "meet", .payload = &values[1]}};
      const auto arrivals = thread == 0 ? std::span<const Arrival>(both) : std::span<const Arrival>(one);
      const auto ranks = thread == 0 ? std::span<const int>(outer) : std::span<const int>(inner);
      rendezvous.meet(ranks, arrivals, {}, 0ms);
      for (int rank = 0; rank < 3; ++rank)
        if (*static_cast<const int*>(rendezvous.arrival(rank, ranks.front()).payload) != 10 * rank) ++wrong;
    }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("ranks that call different operations are told both, and can go on", "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(3);
  std::vector<std::string> messages(3), later(3);
  on_replicas(3, [&](int rank) {
    messages[rank] = outcome(rendezvous, rank, rank == 2 ? "broadcast" : "all_reduce(sum)");
    later[rank] = outcome(rendezvous, rank);
  });
  for (const std::string& message : messages) {
    REQUIRE(
        message ==
        "broadcast, call 0: replica 2 (CPU:2) calls it where replica 0 (CPU:0) calls all_reduce(sum). The "
        "first recorded call that differs: call 0: replica 2 (CPU:2): broadcast; replica 0 (CPU:0): "
        "all_reduce(sum). "
        "Make "
        "the same calls in the same order on every replica.");
  }
  REQUIRE(later == std::vector<std::string>(3));
  REQUIRE_THROWS_AS(
      on_replicas(3, [&](int rank) { rendezvous.meet(rank, {rank == 1 ? "a" : "b"}, {}, 0ms); }),
      CollectiveMismatch);
}

TEST_CASE("what the check throws reaches every rank, and the group can go on", "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(3);
  std::vector<std::string> messages(3), later(3);
  on_replicas(3, [&](int rank) {
    messages[rank] =
        outcome(rendezvous, rank, "meet", 0ms, [](auto) { throw InvalidArgument("the check says no"); });
    later[rank] = outcome(rendezvous, rank);
  });
  REQUIRE(messages == std::vector<std::string>(3, "the check says no"));
  REQUIRE(later == std::vector<std::string>(3));
}

TEST_CASE("ranks bring fingerprints that agree, and short messages, and nothing is checked",
          "[collectives][host]") {
  const int n = 3;
  const std::size_t size = GENERATE(1u, 8u, 32u, 33u, 500u, std::size_t{detail::Mailbox::kMaxBytes});
  Rendezvous rendezvous = make_rendezvous(n);
  std::atomic<int> wrong = 0, checks = 0;
  on_replicas(n, [&](int rank) {
    std::vector<std::byte> mine(size), result(size);
    for (int round = 0; round < 200; ++round) {
      std::ranges::fill(mine, std::byte(7 * rank + round));
      const bool in_place = round % 2 == 0;
      Arrival arrival{.operation = "all_reduce(sum)"};
      arrival.fingerprint = {42, mine.data(), in_place ? mine.data() : result.data(), size};
      arrival.copies_input = true;
      if (!rendezvous.meet(
              rank, arrival, [&](auto) { ++checks; }, 0ms))
        ++wrong;
      std::ranges::fill(mine, std::byte(0));  // the others have copies
      for (int other = 0; other < n; ++other) {
        const std::byte* const bytes = rendezvous.mailbox(other, rank).message;
        if (reinterpret_cast<std::uintptr_t>(bytes) % 32 != 0) ++wrong;
        if (std::ranges::count(bytes, bytes + size, std::byte(7 * other + round)) !=
            static_cast<std::ptrdiff_t>(size))
          ++wrong;
      }
    }
  });
  REQUIRE(wrong == 0);
  REQUIRE(checks == 0);
}

TEST_CASE("fingerprints that do not agree are checked, on every rank alike", "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(3);
  std::vector<std::byte> memory(64);
  std::byte* const base = memory.data();
  // Of each rank: key, where 8 bytes come from, where they go.
  struct Part {
    std::uint64_t key;
    int read, written;
  };
  std::vector<Part> parts{{1, 0, 0}, {1, 8, 8}, {1, 16, 24}};
  bool agree = false;
  SECTION("they do") { agree = true; }
  SECTION("who reads what others read is apart") {
    parts = {{1, 0, 8}, {1, 0, 16}, {1, 0, 24}};
    agree = true;
  }
  SECTION("another key") { parts[1].key = 2; }
  SECTION("no fingerprint") { parts[2].key = 0; }
  SECTION("a result over another's result") { parts[2].written = 15; }
  SECTION("a result over what another reads") { parts[2].written = 1; }
  std::atomic<int> agreed = 0, checks = 0;
  on_replicas(3, [&](int rank) {
    const Part& part = parts[static_cast<std::size_t>(rank)];
    Arrival arrival{.operation = "all_reduce(sum)"};
    if (part.key != 0) arrival.fingerprint = {part.key, base + part.read, base + part.written, 8};
    for (int round = 0; round < 10; ++round)
      agreed += rendezvous.meet(
                    rank, arrival, [&](auto) { ++checks; }, 0ms)
                    ? 1
                    : 0;
  });
  REQUIRE(agreed == (agree ? 30 : 0));
  REQUIRE(checks == (agree ? 0 : 10));
}

TEST_CASE("two threads that drive one rank are told, and the meeting goes on", "[collectives][host]") {
  Rendezvous rendezvous = make_rendezvous(2);
  std::vector<std::string> messages(2);
  std::atomic<int> refused = 0;
  on_replicas(3, [&](int thread) {
    if (thread == 2) {
      while (refused == 0) std::this_thread::yield();
      rendezvous.meet(1, {"all_reduce(sum)"}, {}, 0ms);
      return;
    }
    messages[thread] = outcome(rendezvous, 0);
    if (!messages[thread].empty()) ++refused;
  });
  REQUIRE(refused == 1);
  REQUIRE(messages[0] + messages[1] ==
          "all_reduce(sum), call 0: two threads drive replica 0 (CPU:0) at once. Drive each replica from one "
          "thread, or all "
          "of them from one.");
  SECTION("none of the ranks of the refused call has arrived") {
    const int ranks[] = {1, 1};
    const Arrival arrivals[] = {{"x"}, {"x"}};
    REQUIRE_THROWS_MATCHES(rendezvous.meet(ranks, arrivals, {}, 0ms), ContextError,
                           says("call 1", "replica 1 (CPU:1)"));
    on_replicas(2, [&](int rank) { messages[rank] = outcome(rendezvous, rank); });
    REQUIRE(messages == std::vector<std::string>(2));
  }
}
