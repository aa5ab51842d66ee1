#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/lockstep.hpp>

/// P40 exit_in_run WHO: std::exit(3) where a strategy in a static variable has a run under way: in replica
/// 0's function, in another's ("1"), or in a merge function ("merge"), while the others wait; by the main
/// thread while another one runs it ("main"), which goes on while further static objects are destroyed; in
/// the function of an initial value ("initial"); or in a fork after a run ("fork").

namespace ls = lockstep;

namespace {

std::atomic<int> num_refused = 0;

/// Waits for refusals, once calls are refused.
struct AwaitsRefusals {
  ~AwaitsRefusals() {
    const int before = num_refused;
    while (before != 0 && num_refused < before + 100) std::this_thread::yield();
  }
};

void exit_beside_run(ls::Strategy& strategy) {
  std::thread([&] {
    strategy.run([&] {
      for (;; std::this_thread::yield()) {
        try {
          strategy.run([] {});
        } catch (const ls::ContextError&) {  // it names the strategy
          ++num_refused;
        }
      }
    });
  }).detach();
  while (num_refused == 0) std::this_thread::yield();
  std::exit(3);
}

void exit_in_fork(ls::Strategy& strategy) {
  strategy.run([] {});
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    std::exit(3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

}  // namespace

int main(int, char** argv) {
  static const AwaitsRefusals destroyed_after_the_strategy;
  static ls::MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2"});
  if (std::strcmp(argv[1], "main") == 0) exit_beside_run(strategy);
  if (std::strcmp(argv[1], "fork") == 0) exit_in_fork(strategy);
  if (std::strcmp(argv[1], "initial") == 0)
    static_cast<void>(strategy.make_variable([]() -> ls::Tensor { std::exit(3); }));
  const bool merges = std::strcmp(argv[1], "merge") == 0;
  const int who = merges ? -1 : std::atoi(argv[1]);
  strategy.run([&](ls::ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == who) std::exit(3);
    if (merges) ctx.merge_call([](ls::Strategy&, const ls::PerReplica<float>&) { std::exit(3); }, 1.0f);
    static_cast<void>(ctx.all_reduce(ls::ReduceOp::sum, 1.0f));
  });
  return 0;
}
