// Every replica keeps a copy of a variable. Writes in replicas are aggregated, so that the copies stay equal.
#include <iostream>
#include <optional>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  std::optional<ls::Variable> total, level;
  {
    const auto scope = strategy.scope();
    total.emplace(ls::Tensor::scalar(0.0f), ls::VariableOptions{.aggregation = ls::VariableAggregation::sum});
    level.emplace(ls::Tensor::scalar(0.0f),
                  ls::VariableOptions{.aggregation = ls::VariableAggregation::mean});
  }

  strategy.run([&](ls::ReplicaContext& context) {
    const float mine = context.replica_id_in_sync_group() == 0 ? 2.0f : 4.0f;
    total->assign_add(ls::Tensor::scalar(mine));
    level->assign(ls::Tensor::scalar(mine));
  });

  bool right = true;
  for (const ls::Tensor& copy : strategy.local_results(*total)) {
    std::cout << "total on " << copy.device() << ": " << copy.item<float>() << '\n';
    right = right && copy.item<float>() == 6;
  }
  for (const ls::Tensor& copy : strategy.local_results(*level)) {
    std::cout << "level on " << copy.device() << ": " << copy.item<float>() << '\n';
    right = right && copy.item<float>() == 3;
  }
  return right ? 0 : 1;
}
