// The same program for one process and for several workers, which mpirun, torchrun, srun or TF_CONFIG has
// started.
#include <cstdint>
#include <iostream>
#include <memory>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  const std::shared_ptr<ls::cluster::Resolver> cluster = ls::cluster::from_environment();
  ls::MultiWorkerMirroredStrategy strategy(cluster, {}, {.devices = {"CPU:0", "CPU:1"}});
  ls::Variable total = strategy.make_variable(ls::Tensor::scalar(std::int64_t{0}),
                                              {.aggregation = ls::VariableAggregation::sum});

  // Each worker takes its share of the batches, and each of its replicas a part of these.
  const auto numbers = strategy.distribute_dataset(ls::Dataset::range(100).batch(10),
                                                   {.auto_shard_policy = ls::AutoShardPolicy::data});
  for (const auto& batch : numbers)
    strategy.run([&](const ls::Tensor& rows) { total.assign_add(ls::sum(rows)); }, batch);

  const std::int64_t sum = total.value().item<std::int64_t>();  // the same on every worker
  if (strategy.extended().should_save_summary())                // on the chief alone
    std::cout << strategy.num_replicas_in_sync() << " replicas have added up 0 to 99: " << sum << '\n';
  return sum == 4950 ? 0 : 1;
}
