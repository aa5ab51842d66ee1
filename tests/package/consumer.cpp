// What every way to use the library builds: a step on two replicas, and a reader of files, which needs more
// libraries.
#include <cstdio>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto rows = strategy.run([](ls::ReplicaContext& context) {
    return context.all_reduce(ls::ReduceOp::sum, ls::Tensor::ones({2}));
  });
  const bool reads = static_cast<bool>(ls::readers::lines({.compression = ls::readers::Compression::gzip}));
  const float sum = strategy.reduce(ls::ReduceOp::mean, rows, /*axis=*/0).item<float>();
  std::printf("lockstep %s, %d replicas, %g\n", LOCKSTEP_VERSION_STRING, int(strategy.num_replicas_in_sync()),
              double(sum));
  return sum == 2 && reads ? 0 : 1;
}
