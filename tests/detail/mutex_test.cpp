#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/error.hpp>

#include "detail/lazy.hpp"
#include "support/busy_thread.hpp"
#include "support/child_process.hpp"
#include "support/replicas.hpp"

using lockstep::ContextError;
using lockstep::detail::Lazy;
using lockstep::detail::LeafMutex;
using lockstep::detail::Mutex;
using lockstep::detail::RecursiveMutex;
using lockstep::test::BusyThread;
using lockstep::test::in_child;
using lockstep::test::on_replicas;

namespace {

/// 3: f throws a ContextError that says what was in use, why it is lost and what to do.
int refusal(const std::function<void()>& f, const std::string& what) {
  try {
    f();
  } catch (const ContextError& error) {
    const std::string message = error.what();
    for (const std::string& part :
         {what, std::string("this process is a fork, made while another thread"), std::string("Fork before")})
      if (message.find(part) == std::string::npos) return 4;
    return 3;
  }
  return 5;
}

/// More threads than there are cores, which count to n each with the mutex held.
template <class M>
int counted(M& mutex, int num_threads, int n) {
  int count = 0;
  on_replicas(num_threads, [&](int) {
    for (int i = 0; i < n; ++i) {
      const std::lock_guard lock(mutex);
      ++count;
      if (i % 64 == 0) std::this_thread::yield();  // so that others find it held
    }
  });
  return count;
}

}  // namespace

TEST_CASE("one thread at a time holds a mutex", "[detail][host]") {
  Mutex mutex("a test");
  LeafMutex leaf;
  RecursiveMutex recursive("a test");
  CHECK(counted(mutex, 8, 5000) == 40000);
  CHECK(counted(leaf, 8, 5000) == 40000);
  CHECK(counted(recursive, 8, 5000) == 40000);
}

TEST_CASE("a mutex that is held is not taken by try_lock", "[detail][host]") {
  Mutex mutex("a test");
  CHECK(mutex.try_lock());
  CHECK_FALSE(mutex.try_lock());
  CHECK_FALSE(mutex.is_lost());
  mutex.unlock();
  CHECK(mutex.lock_unless_lost());
  mutex.unlock();
}

TEST_CASE("a recursive mutex is free when its thread has unlocked it as often as it locked it",
          "[detail][host]") {
  RecursiveMutex mutex("a test");
  const auto is_free = [&] {
    bool taken = false;
    std::thread([&] {
      taken = mutex.try_lock();
      if (taken) mutex.unlock();
    }).join();
    return taken;
  };
  mutex.lock();
  CHECK(mutex.try_lock());
  CHECK(mutex.lock_unless_lost());
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(is_free());
    mutex.unlock();
  }
  CHECK(is_free());
}

TEST_CASE("a fork has lost a mutex that another thread held", "[detail][host]") {
  Mutex mutex("a test");
  RecursiveMutex recursive("a recursive test");
  {
    const BusyThread holder([&](BusyThread& thread) {
      const std::lock_guard lock(mutex);
      const std::lock_guard recursive_lock(recursive);
      thread.wait();
    });
    CHECK(in_child([&] { return refusal([&] { mutex.lock(); }, "a test"); }) == 3);
    CHECK(in_child([&] { return refusal([&] { mutex.check(); }, "a test"); }) == 3);
    CHECK(in_child([&] { return refusal([&] { recursive.lock(); }, "a recursive test"); }) == 3);
    CHECK(in_child([&] {
            return mutex.is_lost() && !mutex.try_lock() && !mutex.lock_unless_lost() && recursive.is_lost() &&
                           !recursive.try_lock() && !recursive.lock_unless_lost()
                       ? 3
                       : 4;
          }) == 3);
    CHECK_FALSE(mutex.is_lost());
    CHECK_FALSE(mutex.try_lock());
  }
  CHECK(in_child([&] {
          const std::lock_guard lock(mutex);
          const std::lock_guard recursive_lock(recursive);
          return mutex.is_lost() ? 4 : 3;
        }) == 3);
  CHECK(mutex.try_lock());
  mutex.unlock();
}

TEST_CASE("the thread that a fork has unlocks what it held, and locks it again", "[detail][host]") {
  Mutex mutex("a test");
  RecursiveMutex recursive("a test");
  mutex.lock();
  recursive.lock();
  CHECK(in_child([&] {
          mutex.unlock();
          recursive.unlock();
          const std::lock_guard lock(mutex);
          const std::lock_guard recursive_lock(recursive);
          return 3;
        }) == 3);
  mutex.unlock();
  recursive.unlock();
}

TEST_CASE("a fork finds a leaf mutex free, and what it guards whole", "[detail][host]") {
  LeafMutex mutex;
  volatile int first = 0, second = 0;
  const BusyThread holder([&](BusyThread& thread) {
    while (!thread.ends()) {
      const std::lock_guard lock(mutex);
      first = first + 1;
      for (int i = 0; i < 20; ++i) std::this_thread::yield();
      second = second + 1;
    }
  });
  for (int i = 0; i < 20; ++i)
    CHECK(in_child([&] {
            const std::lock_guard lock(mutex);
            return first == second ? 3 : 4;
          }) == 3);
}

TEST_CASE("an object that is made at its first use is made once", "[detail][host]") {
  Lazy<int> lazy("a test");
  std::atomic<int> num_made = 0;
  const auto fails = [&]() -> int* { throw std::runtime_error("no"); };
  CHECK_THROWS_AS(lazy.get(fails), std::runtime_error);
  std::vector<int*> seen(8);
  on_replicas(
      8, [&](int i) { seen[static_cast<std::size_t>(i)] = &lazy.get([&] { return new int(++num_made); }); });
  const std::unique_ptr<int> made(seen[0]);
  for (const int* each : seen) CHECK(each == made.get());
  CHECK(*made == 1);
}

TEST_CASE("a fork does not wait for what another thread was about to make", "[detail][host]") {
  Lazy<int> lazy("a test, which was being made");
  {
    const BusyThread maker([&](BusyThread& thread) {
      lazy.get([&] {
        thread.wait();
        return new int(1);
      });
    });
    CHECK(in_child([&] {
            return refusal([&] { lazy.get([] { return new int(2); }); }, "a test, which was being made");
          }) == 3);
  }
  const std::unique_ptr<int> made(&lazy.get([] { return new int(3); }));
  CHECK(*made == 1);
}
