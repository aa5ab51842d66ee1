#include <cstdlib>
#include <cstring>

#include <lockstep/lockstep.hpp>

/// P40 exit_in_run WHO: std::exit(3) where a strategy in a static variable has a run under way: in replica
/// 0's function, in another's ("1"), or in a merge function ("merge"), while the others wait.

namespace ls = lockstep;

int main(int, char** argv) {
  static ls::MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2"});
  const bool merges = std::strcmp(argv[1], "merge") == 0;
  const int who = merges ? -1 : std::atoi(argv[1]);
  strategy.run([&](ls::ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == who) std::exit(3);
    if (merges) ctx.merge_call([](ls::Strategy&, const ls::PerReplica<float>&) { std::exit(3); }, 1.0f);
    ctx.all_reduce(ls::ReduceOp::sum, 1.0f);
  });
  return 0;
}
