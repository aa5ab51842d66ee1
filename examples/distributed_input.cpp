// Batches split over replicas, and a mean over rows that is right for the partial batch at the end.
#include <iostream>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const ls::Tensor rows = ls::Tensor::arange(10.0f);  // 0, 1, ... 9
  const auto batches = strategy.distribute_dataset(ls::Dataset::from_tensor_slices(rows).batch(4));

  std::vector<float> means;
  for (const ls::PerReplica<ls::Tensor>& batch : batches) {
    const auto doubled = strategy.run([](const ls::Tensor& part) { return part * 2; }, batch);
    means.push_back(strategy.reduce(ls::ReduceOp::mean, doubled, 0).item<float>());
    std::cout << batch[0].size() << " + " << batch[1].size() << " rows, mean of the doubled " << means.back()
              << '\n';
  }

  const bool right = means == std::vector<float>{3, 11, 17};
  return right ? 0 : 1;
}
