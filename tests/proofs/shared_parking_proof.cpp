// Processes that share memory see every change that is followed by a wake, if it is made as
// shared_parking.hpp asks.
#include "model/holds.hpp"
#include "model/weakening.hpp"
#include "workers/shared_memory/shared_parking.hpp"

namespace lockstep::detail {

namespace {

enum class Change { seq_cst, with_fence, seen_late };

/// One process changes two flags, one after the other; two wait for the first, then for the second.
template <Change kChange>
struct Sleepers : rl::test_suite<Sleepers<kChange>, 3> {
  SharedParking parking;
  model::atomic<int> flag{0};

  void thread(unsigned index) {
    for (int value = 1; value <= 2; ++value) {
      if (index != 0) {
        const bool is_in_time = parking.wait(3, [&] {
          return flag.load(kChange == Change::seen_late ? rl::mo_acquire : rl::mo_seq_cst) >= value;
        });
        RL_ASSERT(is_in_time);
        continue;
      }
      flag.store(value, kChange == Change::with_fence ? rl::mo_release : rl::mo_seq_cst);
      if (kChange == Change::with_fence) full_fence();
      parking.wake();
    }
  }
};

/// That the proof can fail.
bool finds_lost_wake_ups(std::uint64_t num_executions) {
  return !model::holds<Sleepers<Change::seen_late>>(num_executions);
}

/// Two waiters whose changes answer each other: each is awake when the other's wake comes, or is woken.
struct Answers : rl::test_suite<Answers, 2> {
  SharedParking parking;
  model::atomic<int> turn{0};

  void thread(unsigned index) {
    for (int value = static_cast<int>(index); value < 5; value += 2) {
      parking.wait(2, [&] { return turn.load(rl::mo_seq_cst) == value; });
      turn.store(value + 1, rl::mo_seq_cst);
      parking.wake();
    }
  }
  void after() { RL_ASSERT(turn.load(rl::mo_seq_cst) == 5); }
};

/// A waiter returns, in time or not, and says which; also when nobody changes anything.
template <bool kChanges>
struct TimeLimit : rl::test_suite<TimeLimit<kChanges>, 2> {
  SharedParking parking;
  model::atomic<int> flag{0};

  void thread(unsigned index) {
    if (index == 0) {
      if (!kChanges) return;
      flag.store(1, rl::mo_seq_cst);
      return parking.wake();
    }
    const bool is_in_time = parking.wait(
        2, [&] { return flag.load(rl::mo_seq_cst) == 1; }, std::chrono::steady_clock::now());
    RL_ASSERT(!is_in_time || (kChanges && flag.load(rl::mo_seq_cst) == 1));
  }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  return lockstep::model::prove({{"changes in the order of all", holds<Sleepers<Change::seq_cst>>},
                                 {"changes with a fence", holds<Sleepers<Change::with_fence>>},
                                 {"changes that are looked at in no order are lost", finds_lost_wake_ups},
                                 {"two processes answer each other", holds<Answers>},
                                 {"a wait with a time limit", holds<TimeLimit<true>>},
                                 {"a wait of which nobody knows", holds<TimeLimit<false>>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
