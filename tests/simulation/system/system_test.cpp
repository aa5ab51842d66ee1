#include "simulation/system/system.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "simulation/fork.hpp"
#include "simulation/start_process.hpp"

using namespace lockstep::simulation;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Clock = std::chrono::steady_clock;

namespace {

/// In which order threads append to a text, with a mutex and without.
std::string order(System&, Network&) {
  std::string text;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (char name = 'a'; name < 'e'; ++name)
    threads.emplace_back([&, name] {
      for (int i = 0; i < 20; ++i) {
        const std::lock_guard lock(mutex);
        text += name;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return text;
}

}  // namespace

TEST_CASE("a seed gives one order of threads, and another seed another one", "[simulation]") {
  const Outcome first = simulate(1, order), again = simulate(1, order), other = simulate(2, order);
  CHECK(first.failure == "");
  CHECK(first.result.size() == 80);
  CHECK(first.result == again.result);
  CHECK(first.hash == again.hash);
  CHECK(first.result != other.result);
  CHECK(first.hash != other.hash);
}

TEST_CASE("time is virtual: nobody waits for an hour that is slept", "[simulation]") {
  const auto begin = Clock::now();
  const Outcome outcome = simulate(3, [](System&, Network&) {
    const auto now = Clock::now();
    std::mutex mutex;
    std::condition_variable never;
    std::this_thread::sleep_for(1h);
    std::unique_lock lock(mutex);
    never.wait_for(lock, 2h, [] { return false; });
    const bool is_ready = std::async(std::launch::async, [] {
                            std::this_thread::sleep_for(1h);
                          }).wait_for(30min) == std::future_status::ready;
    return std::to_string((Clock::now() - now) / 1h) + (is_ready ? " ready" : " late");
  });
  CHECK(outcome.failure == "");
  CHECK(outcome.result == "4 late");
  CHECK(Clock::now() - begin < 20s);
}

TEST_CASE("waits end when others wake them", "[simulation]") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Outcome outcome = simulate(seed, [](System&, Network&) {
      std::mutex mutex;
      std::condition_variable changed;
      std::atomic<int> by_futex{0};
      int turn = 0;
      const auto play = [&](int own) {
        for (int i = 0; i < 10; ++i) {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return turn % 3 == own; });
          ++turn;
          changed.notify_all();
        }
        by_futex.fetch_add(1);
        by_futex.notify_all();
      };
      std::vector<std::thread> threads;
      for (int own = 0; own < 3; ++own) threads.emplace_back(play, own);
      for (int seen = by_futex.load(); seen < 3; seen = by_futex.load()) by_futex.wait(seen);
      for (std::thread& thread : threads) thread.join();
      return std::to_string(turn);
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.result == "30");
  }
}

TEST_CASE("a deadlock is found, with where each thread waits", "[simulation]") {
  const Outcome outcome = simulate(5, [](System&, Network&) {
    std::mutex mutex;
    std::condition_variable never;
    std::thread other([&] {
      std::unique_lock lock(mutex);
      never.wait(lock, [] { return false; });
    });
    other.join();
    return std::string();
  });
  CHECK_THAT(outcome.failure, ContainsSubstring("deadlock") &&
                                  ContainsSubstring("waits in a condition variable") &&
                                  ContainsSubstring("waits in the join of a thread"));
}

TEST_CASE("what does not end within the limit of virtual time is found", "[simulation]") {
  const Outcome outcome = simulate(6, [](System& system, Network&) {
    system.set_time_limit(10 * kSecond);
    for (;;) std::this_thread::sleep_for(1s);
    return std::string();
  });
  CHECK_THAT(outcome.failure, ContainsSubstring("has not ended within its limit of virtual time"));
}

TEST_CASE("a crash and an exception are failures", "[simulation]") {
  CHECK_THAT(simulate(7, [](System&, Network&) -> std::string { throw std::runtime_error("that is wrong"); })
                 .failure,
             ContainsSubstring("that is wrong"));
  CHECK_THAT(simulate(7, [](System&, Network&) -> std::string { __builtin_trap(); }).failure,
             ContainsSubstring("it was ended by"));
}

TEST_CASE("a killed process does nothing more, and a paused one goes on later", "[simulation]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome outcome = simulate(seed, [](System& system, Network&) {
      int counts[2] = {};
      Process* processes[2];
      for (int i = 0; i < 2; ++i)
        processes[i] = &start_process(system, "10.0.0.1", [&counts, i] {
          for (;;) {
            ++counts[i];
            std::this_thread::sleep_for(1ms);
          }
        });
      std::this_thread::sleep_for(100ms);
      system.kill(*processes[0]);
      system.set_paused(*processes[1], true);
      const int before[2] = {counts[0], counts[1]};
      std::this_thread::sleep_for(100ms);
      if (counts[0] != before[0] || counts[1] != before[1]) return std::string("they go on");
      system.set_paused(*processes[1], false);
      std::this_thread::sleep_for(100ms);
      if (counts[0] != before[0] || counts[1] < before[1] + 50) return std::string("the wrong one goes on");
      return std::string(system.has_ended(*processes[0]) ? "right" : "it has not ended");
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.result == "right");
  }
}
