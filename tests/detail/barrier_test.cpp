#include "detail/barrier.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <unistd.h>

#include "detail/parking.hpp"
#include "support/asleep.hpp"
#include "support/child_process.hpp"
#include "support/replicas.hpp"

namespace detail = lockstep::detail;
namespace test = lockstep::test;
using lockstep::detail::Barrier;
using lockstep::test::is_asleep;
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
}

TEST_CASE("a thread may stand for several parties of a barrier", "[detail][host]") {
  Barrier barrier(5);
  std::atomic<int> passed = 0;
  on_replicas(2, [&](int replica) {
    for (int round = 0; round < 100; ++round) passed += barrier.arrive_and_wait(replica == 0 ? 2 : 3) ? 1 : 0;
  });
  REQUIRE(passed == 200);
}

TEST_CASE("a generation of a barrier is complete for all, or failed for all", "[detail][host]") {
  const int n = 3;
  for (int round = 0; round < 2000; ++round) {
    Barrier barrier(n);
    std::atomic<int> passed = 0;
    on_replicas(n + 1, [&](int thread) {
      if (thread == n)
        barrier.fail();
      else
        passed += barrier.arrive_and_wait(1) ? 1 : 0;
    });
    REQUIRE((passed == 0 || passed == n));
  }
}

TEST_CASE("a failed barrier lets nobody pass", "[detail][host]") {
  Barrier barrier(3);
  const bool asleep = GENERATE(false, true);
  std::atomic<int> passed = 0;
  std::array<std::atomic<pid_t>, 2> others{};
  on_replicas(3, [&](int replica) {
    if (replica < 2) {
      others[static_cast<std::size_t>(replica)] = ::gettid();
      passed += barrier.arrive_and_wait(1) ? 1 : 0;
      return;
    }
    if (asleep)
      for (const auto& other : others)
        while (other == 0 || !is_asleep(other)) std::this_thread::yield();
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
}

TEST_CASE("a place to wait can be destroyed in a fork, though others sleep there", "[detail][host]") {
  auto parking = std::make_unique<detail::Parking>();
  std::atomic<bool> is_over{false};
  std::atomic<pid_t> sleeper{0};
  std::thread other([&] {
    sleeper = ::gettid();
    parking->wait(2, [&] { return is_over.load(); });
  });
  while (sleeper == 0 || !is_asleep(sleeper)) std::this_thread::yield();
  CHECK(test::in_child([&] {
          parking.reset();
          return 7;
        }) == 7);
  is_over = true;
  parking->wake();
  other.join();
}
