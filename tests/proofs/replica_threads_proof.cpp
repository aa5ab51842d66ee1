// The replicas' threads start, run jobs one after the other and within each other, and end.
#include "model/holds.hpp"
#include "model/thread.hpp"
#include "model/weakening.hpp"
#include "strategy/runtime/replica_threads.hpp"

namespace lockstep::detail {

namespace {

constexpr int kJobs = 2;

/// Every replica does each job once, after what its caller has written before it; and the caller sees what
/// all have written.
template <int N>
struct Jobs : rl::test_suite<Jobs<N>, N> {
  model::Threads system;
  ReplicaThreads threads{N};
  rl::var<int> given, made[N];

  void before() {
    given($) = 0;
    for (auto& var : made) var($) = 0;
  }
  void do_job(int number) {
    given($) = number;
    threads.run([&](int replica) {
      RL_ASSERT(static_cast<int>(given($)) == number && static_cast<int>(made[replica]($)) == number - 1);
      made[replica]($) = number;
    });
    for (auto& var : made) RL_ASSERT(static_cast<int>(var($)) == number);
  }
  void thread(unsigned index) {
    if (index != 0) return system.serve(static_cast<int>(index) - 1);
    for (int number = 1; number <= kJobs; ++number) do_job(number);
    threads.stop();
  }
};

/// Replica 0 runs a job within a job, once the others have begun theirs, and they serve it as in a merge
/// call; what it has written when it lets them go on is there for them.
template <int N>
struct NestedJobs : rl::test_suite<NestedJobs<N>, N> {
  model::Threads system;
  ReplicaThreads threads{N};
  model::atomic<int> num_begun{0}, is_done{0};
  rl::var<int> result, made[N];

  void before() {
    result($) = 0;
    for (auto& var : made) var($) = 0;
  }
  void thread(unsigned index) {
    if (index != 0) return system.serve(static_cast<int>(index) - 1);
    threads.run([&](int replica) {
      if (replica == 0) {
        threads.await([&] { return num_begun.load(rl::mo_seq_cst) == N - 1; });
        threads.run([&](int inner) { made[inner]($) = 1; });
        for (auto& var : made) RL_ASSERT(static_cast<int>(var($)) == 1);
        result($) = 1;
        is_done.store(1, rl::mo_seq_cst);
        threads.wake();
      } else {
        if (num_begun.fetch_add(1, rl::mo_seq_cst) == N - 2) threads.wake();
        threads.serve(replica, [&] { return is_done.load(rl::mo_seq_cst) == 1; });
      }
      RL_ASSERT(static_cast<int>(result($)) == 1 && static_cast<int>(made[replica]($)) == 1);
    });
    threads.stop();
  }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  return lockstep::model::prove({{"2 replicas do jobs", holds<Jobs<2>>},
                                 {"3 replicas do jobs", holds<Jobs<3>>},
                                 {"2 replicas, jobs within a job", holds<NestedJobs<2>>},
                                 {"3 replicas, jobs within a job", holds<NestedJobs<3>>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
