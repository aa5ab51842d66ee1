#include "strategy/runtime/replica_threads.hpp"

#include <atomic>
#include <barrier>
#include <cstdint>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include <lockstep/error.hpp>

#include "detail/sanitizers.hpp"

using lockstep::detail::ReplicaThreads;

TEST_CASE("replica threads run one job for every replica", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3, 4, 7);
  ReplicaThreads threads(n);
  std::vector<int> calls(static_cast<std::size_t>(n), 0);
  for (int round = 0; round < 1000; ++round)
    threads.run([&](int i) { ++calls[static_cast<std::size_t>(i)]; });
  REQUIRE(calls == std::vector<int>(static_cast<std::size_t>(n), 1000));
}

TEST_CASE("P24 replica threads run at the same time", "[strategy][host]") {
  const int n = GENERATE(2, 3, 4, 7);
  ReplicaThreads threads(n);
  std::barrier everybody(n);
  threads.run([&](int) { everybody.arrive_and_wait(); });
  SUCCEED("all replicas were at the barrier together");
}

TEST_CASE("replica threads persist, and replica 0 runs on the caller's", "[strategy][host]") {
  constexpr int n = 3;
  ReplicaThreads threads(n);
  std::vector<std::set<std::thread::id>> ids(n);
  for (int round = 0; round < 20; ++round)
    threads.run([&](int i) { ids[static_cast<std::size_t>(i)].insert(std::this_thread::get_id()); });
  for (const auto& seen : ids) REQUIRE(seen.size() == 1);
  REQUIRE(ids[0] == std::set{std::this_thread::get_id()});
  REQUIRE(ids[1] != ids[2]);
}

TEST_CASE("each replica thread calls what it is told to, once, before its first job", "[strategy][host]") {
  constexpr int n = 4;
  std::vector<int> started(n, 0), seen(n, 0);
  ReplicaThreads threads(n, [&](int i) { ++started[static_cast<std::size_t>(i)]; });
  for (int round = 0; round < 3; ++round)
    threads.run([&](int i) { seen[static_cast<std::size_t>(i)] = started[static_cast<std::size_t>(i)]; });
  REQUIRE(seen == std::vector<int>{0, 1, 1, 1});
}

TEST_CASE("a job's replica 0 may run nested jobs while the others serve", "[strategy][host]") {
  const int n = GENERATE(2, 3, 4, 7);
  ReplicaThreads threads(n);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> inner{0};
    std::atomic<int> outer{0};
    std::atomic<bool> done{false};
    std::barrier everybody(n);  // a nested job may start when all have begun the outer one
    threads.run([&](int i) {
      everybody.arrive_and_wait();
      if (i == 0) {
        for (int nested = 0; nested < 3; ++nested) threads.run([&](int) { ++inner; });
        done = true;
        threads.wake();
      } else {
        threads.serve(i, [&] { return done.load(); });
      }
      ++outer;
    });
    REQUIRE(inner == 3 * n);
    REQUIRE(outer == n);
  }
}

TEST_CASE("replica threads end idle, used or never started", "[strategy][host]") {
  for (int round = 0; round < 50; ++round) {
    ReplicaThreads unused(4);
    ReplicaThreads used(4);
    std::atomic<int> calls{0};
    used.run([&](int) { ++calls; });
    REQUIRE(calls == 4);
  }
}

// A sanitizer's own memory would not fit the limit either.
#if !LOCKSTEP_ADDRESS_SANITIZER && !LOCKSTEP_THREAD_SANITIZER
TEST_CASE("a thread that cannot be started is an Error, and a later run starts it", "[strategy][host]") {
  constexpr int n = 65;
  ReplicaThreads threads(n);
  std::atomic<int> calls{0};
  const std::function<void(int)> count = [&](int) { ++calls; };
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit tight = before;  // no room for many stacks
  tight.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (std::size_t{64} << 20);
  REQUIRE(setrlimit(RLIMIT_AS, &tight) == 0);
  std::string message;
  try {
    threads.run(count);
  } catch (const lockstep::Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_AS, &before);
  REQUIRE_THAT(message, Catch::Matchers::StartsWith("run: the thread of replica ") &&
                            Catch::Matchers::ContainsSubstring("of 65 cannot be started"));
  REQUIRE(calls == 0);
  threads.run(count);
  REQUIRE(calls == n);
}
#endif
