// Threads exclude each other by the library's own mutexes, and none sleeps while the mutex is free.
#include <mutex>

#include <lockstep/detail/mutex.hpp>

#include "model/holds.hpp"
#include "model/weakening.hpp"

namespace lockstep::detail {

namespace {

constexpr int kTurns = 2;

/// What a holder writes the next one sees. Threads lock, or try to.
template <class M, int N, bool kTries>
struct Exclusion : rl::test_suite<Exclusion<M, N, kTries>, N> {
  model::Memory memory;
  M mutex{"a test"};
  rl::var<int> count;
  int expected[N] = {};

  void before() { count($) = 0; }
  void add() { count($) = static_cast<int>(count($)) + 1; }
  void thread(unsigned index) {
    for (int turn = 0; turn < kTurns; ++turn) {
      if (kTries && index == 0) {
        if (!mutex.try_lock()) continue;
      } else if (turn == 1) {
        RL_ASSERT(mutex.lock_unless_lost());
      } else {
        mutex.lock();
      }
      add();
      ++expected[index];
      if constexpr (std::is_same_v<M, RecursiveMutex>) {
        mutex.lock();
        add();
        ++expected[index];
        mutex.unlock();
      }
      RL_ASSERT(!mutex.is_lost());
      mutex.unlock();
    }
  }
  void after() {
    int sum = 0;
    for (const int own : expected) sum += own;
    RL_ASSERT(static_cast<int>(count($)) == sum);
  }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  return lockstep::model::prove(
      {{"2 threads", holds<Exclusion<Mutex, 2, false>>},
       {"3 threads", holds<Exclusion<Mutex, 3, false>>},
       {"3 threads, one of which tries", holds<Exclusion<Mutex, 3, true>>},
       {"2 threads lock again", holds<Exclusion<RecursiveMutex, 2, false>>},
       {"3 threads lock again, one tries", holds<Exclusion<RecursiveMutex, 3, true>>}},
      LOCKSTEP_UNNOTICED, argc, argv);
}
