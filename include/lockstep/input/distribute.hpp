#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/detail/shared_function.hpp>
#include <lockstep/device.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/input/step_exchange.hpp>
#include <lockstep/values/nest.hpp>

#pragma GCC visibility push(default)

/// Distribution of datasets over replicas, which strategies call.
namespace lockstep::detail {

/// The replicas that take the elements.
struct InputTarget {
  std::vector<Device> devices{};  ///< Devices of the local replicas, in order.
  InputContext context{};  ///< This worker's index, the number of workers, and the number of all replicas.
  bool splits = true;      ///< Whether a global batch is split over replicas; false: each gets it whole.
  std::string strategy_name{};        ///< For messages.
  bool per_replica_datasets = false;  ///< Whether InputReplicationMode::per_replica is supported.
  /// Starts a pass with the other workers; empty: there are no others. Called on the thread that takes the
  /// iterator. All workers take iterators in the same order, so that each one's n-th call is for the same
  /// pass. They also take steps of concurrent passes in the same order, because a step waits for the others'
  /// call.
  SharedFunction<std::shared_ptr<StepExchange>()> open_exchange{};  // owners: the makers of the pass's steps
  /// Throws if `what`, a call for the next step, is not allowed here; null: it is allowed everywhere.
  void (*check_caller)(std::string_view what) = nullptr;
};

/// The contexts with which the user's function is called, one for each dataset.
/// @throws InvalidArgument, Unsupported  options are invalid, or this target does not support them.
std::vector<InputContext> input_contexts(const InputTarget& target, const InputOptions& options);
/// Splits each global batch, and takes this worker's share. @throws InvalidArgument  options are invalid,
/// elements have no rows, or the number of replicas differs between workers. @throws Unsupported
/// per_replica; weights with several workers that do not all read the whole dataset. @throws NotFound  as
/// auto_shard.
Steps split_steps(const PipelineHandle& dataset, const InputTarget& target, const InputOptions& options);
/// Distributes whole elements: from one dataset in turn, or to each replica from its own dataset.
/// @throws InvalidArgument  the datasets' elements are known to differ in number of components, dtypes,
/// lengths or keys.
Steps deal_steps(const std::vector<PipelineHandle>& datasets, const InputTarget& target,
                 const InputOptions& options);

/// The type of the first dataset whose elements' lengths and keys are known. Valid as long as the datasets.
/// @throws InvalidArgument  two of the types differ. @throws ContextError  none is known before the first
/// step.
const ElementType& common_type(const std::vector<PipelineHandle>& datasets);

/// The replicas' elements as one nest of per-replica values, even if the components are equal; with a single
/// replica, its element. @throws as common_type.
template <class E>
merged_t<E> assemble_step(const std::vector<PipelineHandle>& datasets, Step&& step) {
  const ElementType& type = common_type(datasets);
  RecycledVector<E> elements;
  elements.reserve(step.size());
  for (FlatElement& leaves : step) elements.push_back(unflatten_element<E>(type, std::move(leaves)));
  RecycledVector<E*> parts;
  for (E& element : elements) parts.push_back(&element);
  merged_t<E> merged = merge(parts, "DistributedIterator::next");
  if (parts.size() == 1) return merged;
  return map_leaves(merged, [](const auto& leaf) {
    using Leaf = std::remove_cvref_t<decltype(leaf)>;
    return ValueAccess::per_replica(RecycledVector<typename Leaf::value_type>(leaf.begin(), leaf.end()));
  });
}

template <class E>
DistributedDataset<merged_t<E>> distribute_steps(Steps steps, std::vector<PipelineHandle> datasets) {
  return DistributedDataset<merged_t<E>>({std::move(steps), [datasets = std::move(datasets)](Step&& step) {
                                            return assemble_step<E>(datasets, std::move(step));
                                          }});
}

/// Strategy::distribute_dataset.
template <class E>
DistributedDataset<merged_t<E>> distribute(const TypedDataset<E>& dataset, const InputTarget& target,
                                           const InputOptions& options = {}) {
  return distribute_steps<E>(split_steps(dataset.pipeline(), target, options), {dataset.pipeline()});
}

/// Strategy::distribute_datasets_from_function.
template <std::invocable<InputContext> F>
auto distribute_from_function(F&& fn, const InputTarget& target, const InputOptions& options = {}) {
  using Made = std::remove_cvref_t<std::invoke_result_t<F&, InputContext>>;
  static_assert(
      requires { typename dataset_element<Made>::type; },
      "the function must return a TypedDataset; of a Dataset, return dataset.as<E>()");
  std::vector<PipelineHandle> datasets;
  for (const InputContext& context : input_contexts(target, options))
    datasets.push_back(fn(context).pipeline());
  return distribute_steps<typename dataset_element<Made>::type>(deal_steps(datasets, target, options),
                                                                datasets);
}

}  // namespace lockstep::detail

#pragma GCC visibility pop
