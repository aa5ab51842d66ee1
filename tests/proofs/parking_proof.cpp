// A sleeper sees every change that is followed by a wake, if the change is made as parking.hpp asks.
#include "detail/parking.hpp"
#include "model/holds.hpp"
#include "model/weakening.hpp"

namespace lockstep::detail {

namespace {

enum class Change { seq_cst, with_fence, seen_late };

/// One thread changes two flags, one after the other; two threads wait for the first, then for the second.
template <Change kChange>
struct Sleepers : rl::test_suite<Sleepers<kChange>, 3> {
  Parking parking;
  model::atomic<int> flag{0};
  rl::var<int> written;

  void before() { written($) = 0; }
  void thread(unsigned index) {
    for (int value = 1; value <= 2; ++value) {
      if (index != 0) {
        parking.wait(3, [&] {
          return flag.load(kChange == Change::seen_late ? rl::mo_acquire : rl::mo_seq_cst) >= value;
        });
        continue;
      }
      flag.store(value, kChange == Change::with_fence ? rl::mo_release : rl::mo_seq_cst);
      if (kChange == Change::with_fence) full_fence();
      parking.wake();
    }
  }
};

/// That the proof can fail: a thread that looks in another order than parking.hpp asks sleeps through a
/// change.
bool finds_lost_wake_ups(std::uint64_t num_executions) {
  return !model::holds<Sleepers<Change::seen_late>>(num_executions);
}

/// A waiter returns, in time or not, and says which.
struct TimeLimit : rl::test_suite<TimeLimit, 2> {
  Parking parking;
  model::atomic<int> flag{0};

  void thread(unsigned index) {
    if (index == 0) {
      flag.store(1, rl::mo_seq_cst);
      return parking.wake();
    }
    const bool is_in_time = parking.wait(
        2, [&] { return flag.load(rl::mo_seq_cst) == 1; }, std::chrono::milliseconds(1));
    if (is_in_time) RL_ASSERT(flag.load(rl::mo_seq_cst) == 1);
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
                                 {"a wait with a time limit", holds<TimeLimit>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
