// Replicas meet in merge calls, whose functions may run them again, or fail.
#include <typeinfo>

#include "model/holds.hpp"
#include "model/thread.hpp"
#include "model/weakening.hpp"
#include "strategy/runtime/replica_run.hpp"

namespace lockstep::detail {

namespace {

constexpr int kMerges = 2;

enum class Merge { returns, runs, fails };

/// Replica 0 sees what all bring, and all take what it has made, which it may then change; or all leave the
/// call by an exception.
template <int N, Merge kMerge>
struct Merges : rl::test_suite<Merges<N, kMerge>, N> {
  model::Threads system;
  ModelStrategyState state;
  std::byte strategy[1] = {};  // of which nothing is used
  rl::var<int> result, brought[N];
  int num_thrown[N] = {};

  void before() {
    result($) = 0;
    for (auto& var : brought) var($) = 0;
  }
  void merge(ReplicaRun& run, int replica, int number) {
    const auto combine = [&](std::span<void* const> all) {
      for (void* each : all) RL_ASSERT(static_cast<int>((*static_cast<rl::var<int>*>(each))($)) == number);
    };
    const auto merge_fn = [&] {
      if (kMerge == Merge::runs) state.threads().run([&](int inner) { brought[inner]($) = -number; });
      if (kMerge == Merge::fails) throw InvalidArgument("a test");
      result($) = number;
    };
    const auto take = [&](void* made) {
      RL_ASSERT(made == &result && static_cast<int>(result($)) == number);
      if (kMerge == Merge::runs) RL_ASSERT(static_cast<int>(brought[replica]($)) == -number);
    };
    brought[replica]($) = number;
    run.merge(replica, {"a test", &typeid(int), &brought[replica]}, combine, merge_fn, &result, take);
    if (replica == 0) result($) = 0;
  }
  void do_job(ReplicaRun& run, int replica) {
    try {
      for (int number = 1; number <= kMerges; ++number) merge(run, replica, number);
    } catch (const InvalidArgument&) {
      num_thrown[replica] = replica == 0 ? 1 : 0;
    } catch (const Released&) {
      num_thrown[replica] = replica == 0 ? 0 : 1;
    }
  }
  void thread(unsigned index) {
    if (index != 0) return system.serve(static_cast<int>(index) - 1);
    ReplicaRun run(reinterpret_cast<Strategy&>(strategy));
    state.threads().run([&](int replica) { do_job(run, replica); });
    state.threads().stop();
  }
  void after() {
    for (const int thrown : num_thrown) RL_ASSERT(thrown == (kMerge == Merge::fails ? 1 : 0));
  }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  return lockstep::model::prove({{"2 replicas merge", holds<Merges<2, Merge::returns>>},
                                 {"3 replicas merge", holds<Merges<3, Merge::returns>>},
                                 {"3 replicas run in a merge", holds<Merges<3, Merge::runs>>},
                                 {"2 replicas, a merge fails", holds<Merges<2, Merge::fails>>},
                                 {"3 replicas, a merge fails", holds<Merges<3, Merge::fails>>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
