// Combines values over replicas: inside the replica function, and outside of it.
#include <iostream>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2"});

  // Inside, every replica gets the sum, with the same bits on each.
  const ls::PerReplica<ls::Tensor> sums = strategy.run([](ls::ReplicaContext& context) {
    const float id = static_cast<float>(context.replica_id_in_sync_group());
    return context.all_reduce(ls::ReduceOp::sum, ls::Tensor::from<float>({id, 10 * id}, {2}));
  });
  // Outside, reduce combines the replicas' values to one value.
  const auto counts = strategy.run([](ls::ReplicaContext& context) {
    return ls::Tensor::full({2}, context.replica_id_in_sync_group() + 1);
  });
  const ls::Tensor largest = strategy.reduce(ls::ReduceOp::max, counts);

  bool right = largest.to_vector<int>() == std::vector<int>{3, 3};
  for (const ls::Tensor& sum : sums) {
    const auto values = sum.to_vector<float>();
    std::cout << "the sum on " << sum.device() << ": " << values[0] << ", " << values[1] << '\n';
    right = right && values == std::vector<float>{3, 30};
  }
  std::cout << "the largest count: " << largest.to_vector<int>()[0] << '\n';
  return right ? 0 : 1;
}
