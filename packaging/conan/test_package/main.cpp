// A step on two replicas.
#include <cstdio>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto rows = strategy.run([](ls::ReplicaContext& context) {
    return context.all_reduce(ls::ReduceOp::sum, ls::Tensor::ones({2}));
  });
  const float sum = strategy.reduce(ls::ReduceOp::mean, rows, /*axis=*/0).item<float>();
  std::printf("lockstep %s, %d replicas, %g\n", LOCKSTEP_VERSION_STRING, int(strategy.num_replicas_in_sync()),
              double(sum));
  return sum == 2 ? 0 : 1;
}
