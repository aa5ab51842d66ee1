#include "operations/operation.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "collectives/collective.hpp"
#include "operations/table.hpp"

namespace lockstep::bench {
namespace {

constexpr std::array kTable{&kRun,         &kRunAllReduce, &kMergeCall,    &kUpdate, &kAxisReduce,
                            &kBatchReduce, &kStep,         &kRecordedStep, &kInput};

}  // namespace

std::span<const OperationEntry* const> all_operations() { return kTable; }

const OperationEntry* find_operation(std::string_view name) {
  const auto found =
      std::ranges::find(kTable, name, [](const OperationEntry* entry) { return entry->traits.name; });
  return found == kTable.end() ? nullptr : *found;
}

std::span<const Traits> all_traits() {
  static const std::vector<Traits> traits = [] {
    std::vector<Traits> all;
    for (const Collective* collective : all_collectives())
      all.push_back({.name = collective->name,
                     .reduces = collective->reduces,
                     .has_root = collective->has_root,
                     .floor = kCollectiveFloor,
                     .gpu_floor = kCollectiveGpuFloor});
    for (const OperationEntry* entry : all_operations()) all.push_back(entry->traits);
    return all;
  }();
  return traits;
}

int first_replica(Strategy& strategy) {
  const auto ids = strategy.run([](ReplicaContext& context) { return context.replica_id_in_sync_group(); });
  return strategy.local_results(ids).front();
}

void fill_tensor(Fill fill, const Pattern& pattern, int rank, Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.nbytes()));
  fill(pattern, rank, bytes.data(), 0, tensor.size());
  tensor.copy_(Tensor::view(bytes.data(), tensor.shape(), tensor.dtype(), Device()));
}

std::int64_t count_wrong_in(const Pattern& pattern, const Tensor& result) {
  const Tensor on_host = result.to(Device());
  const void* const data = on_host.view().data;
  return count_wrong(pattern, std::span(&data, 1), 0, result.size());
}

}  // namespace lockstep::bench
