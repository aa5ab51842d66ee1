// What every way to use the library builds: an engine lends its memory for a step on two replicas, and shares
// the result by DLPack; and a reader of files, which needs more libraries.
#include <array>
#include <cstddef>
#include <cstdio>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  std::array<std::array<float, 2>, 2> memory{{{1, 2}, {3, 4}}};  // the engine's, for each replica
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto sums = strategy.run([&](ls::ReplicaContext& context) {
    auto& own = memory[static_cast<std::size_t>(context.local_index())];
    return context.all_reduce(ls::ReduceOp::sum,
                              ls::Tensor::view(own.data(), {2}, ls::DType::f32, context.device()));
  });
  const ls::StreamRef stream = ls::current_stream("CPU:0");
  const ls::Tensor taken = ls::dlpack::from(ls::dlpack::to(sums[0], stream), stream);

  const bool reads = static_cast<bool>(ls::readers::lines({.compression = ls::readers::Compression::gzip}));
  std::printf("lockstep %s, %d replicas, %g\n", LOCKSTEP_VERSION_STRING, int(strategy.num_replicas_in_sync()),
              double(taken.to_vector<float>()[1]));
  return taken.to_vector<float>() == std::vector<float>{4, 6} && reads ? 0 : 1;
}
