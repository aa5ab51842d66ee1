#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/detail/function_ref.hpp>
#include <lockstep/device.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/strategy/logical_device.hpp>
#include <lockstep/strategy/work.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/nest.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

class ReplicaContext;
class Strategy;

namespace detail {
class ReplicaRun;
ReplicaContext& default_replica_context();

/// A tensor or sparse rows, on the way into or out of a collective.
struct Contribution {
  Tensor tensor;
  std::optional<IndexedSlices> slices;
};

/// One replica's arguments of a merge call, type erased.
struct MergeArguments {
  std::string_view operation;  ///< The caller's operation, for messages.
  const std::type_info* type;  ///< of the result and the arguments
  void* arguments;
};

/// @throws Unsupported  always.
[[noreturn]] void raise_sparse_gather(int replica);
}  // namespace detail

/// A replica, as its function sees it. Valid on the replica's thread while its function runs;
/// neither copied nor moved.
class ReplicaContext {
 public:
  ReplicaContext(const ReplicaContext&) = delete;
  ReplicaContext& operator=(const ReplicaContext&) = delete;

  [[nodiscard]] int replica_id_in_sync_group() const noexcept { return replica_id_; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept;
  /// Position among this process's replicas: of this replica's component in a distributed value.
  [[nodiscard]] int local_index() const noexcept;
  [[nodiscard]] Strategy& strategy() const noexcept { return strategy_; }
  /// The device of this replica's work: its logical device, as the innermost guard names it.
  [[nodiscard]] const Device& device() const noexcept;
  /// The stream on which this replica's work is enqueued.
  [[nodiscard]] StreamRef stream() const { return current_stream(device()); }

  /// Combines every leaf of `nest` over all replicas; each gets the same bits. All replicas make the same
  /// calls in the same order, with the same structure and shapes; the leaves of one call are one batch.
  ///
  /// A host scalar is one contribution from each replica. A tensor on another device is first copied to
  /// device(). A mirrored variable contributes its component. Sparse rows are concatenated. mean divides by
  /// the number of replicas and nothing else: values that were divided by the global batch size already want
  /// sum. The mean of integers is a true division (reduced_dtype). Enqueued on stream(); waits on the host
  /// for the other replicas to make the call, never for a device. Takes nothing from the heap in steady state
  /// (Strategy) but the std::vectors and std::maps of the nest that it returns.
  ///
  /// @return the nest with each leaf a Tensor (IndexedSlices stay). In the default context: `nest` itself.
  /// @throws InvalidArgument  booleans, or leaves that are not numbers.
  /// @throws CollectiveMismatch  replicas disagree on shape, dtype, structure or order: on every replica,
  /// naming both; or they are on different logical devices.
  /// @throws ContextError  not this replica's thread; or a replica has returned without making the call.
  /// @throws CollectiveTimeout  options.timeout is over: who arrived and who did not.
  template <class NestType>
  [[nodiscard]] auto all_reduce(ReduceOp op, const NestType& nest, const CommunicationOptions& options = {});

  /// Starts all_reduce on the replica's communication stream, after the work that is enqueued on stream() so
  /// far, and returns without ordering stream() after it: later work on stream() runs beside it. Reductions
  /// run in the order in which they are started, which is the same on all replicas. The work keeps operands
  /// and results alive; operands must not be written before it was waited for. With an explicit
  /// CrossDeviceOps it is done when this returns.
  /// @return a Work whose wait() gives what all_reduce returns.
  /// @throws as all_reduce. @throws InvalidArgument  sparse rows.
  template <class NestType>
  [[nodiscard]] auto start_all_reduce(ReduceOp op, const NestType& nest,
                                      const CommunicationOptions& options = {});

  /// Concatenates every leaf along `axis`, in replica order; sizes along it may differ. Otherwise as
  /// all_reduce.
  /// @throws InvalidArgument  scalars (expand first), ranks or other extents differ, axis out of range.
  /// @throws Unsupported  sparse rows.
  template <class NestType>
  [[nodiscard]] auto all_gather(const NestType& nest, std::int64_t axis,
                                const CommunicationOptions& options = {});

  /// The same as StrategyExtended::logical_device. Collectives run over the replicas' devices of that number,
  /// and leave their results there: all replicas make them in the same guards.
  [[nodiscard]] LogicalDeviceScope logical_device(int k) const { return LogicalDeviceScope(strategy_, k); }

  /// Pauses all replicas and calls replica 0's merge_fn(strategy, args...) once, in cross-replica context,
  /// with each argument as PerReplica<T> in replica order (variables as Variable&). Every replica gets its
  /// part of the result: the component of distributed leaves, the same object otherwise.
  /// @throws ContextError  not this replica's thread; or replicas make a different number of merge calls.
  /// @throws InvalidArgument  arguments of different types, lengths or keys on different replicas; on each.
  /// The caller of `run` gets merge_fn's exceptions.
  template <class F, class... Args>
  auto merge_call(F&& merge_fn, const Args&... args) {
    return merge_call_as("merge_call", std::forward<F>(merge_fn), args...);
  }
  /// For the library: the same on behalf of `operation`, which replicas must agree in and messages name.
  template <class F, class... Args>
  auto merge_call_as(std::string_view operation, F&& merge_fn, const Args&... args);

 private:
  friend class detail::ReplicaRun;
  friend class PackedReduction;
  friend ReplicaContext& detail::default_replica_context();
  ReplicaContext(Strategy& strategy, int replica_id, detail::ReplicaRun* run)
      : strategy_(strategy), replica_id_(replica_id), run_(run) {}

  /// @throws ContextError  this context is not the innermost on this thread.
  void check_current(std::string_view what) const;
  /// all_reduce_batch of one tensor, without a list.
  Tensor all_reduce_one(ReduceOp op, const Tensor& value, const CommunicationOptions& options);
  /// @param structure  of the nest that the values are the leaves of, detail::describe_structure.
  detail::RecycledVector<detail::Contribution> all_reduce_batch(
      ReduceOp op, detail::RecycledVector<detail::Contribution> values, std::string_view structure,
      const CommunicationOptions& options);
  std::pair<detail::StartedWork, detail::RecycledVector<detail::Contribution>> start_all_reduce_batch(
      ReduceOp op, detail::RecycledVector<detail::Contribution> values, std::string_view structure,
      const CommunicationOptions& options);
  detail::RecycledVector<Tensor> all_gather_batch(std::span<const Tensor> values, std::int64_t axis,
                                                  std::string_view structure,
                                                  const CommunicationOptions& options);
  /// Meets the other replicas. In the meeting replica 0 calls `combine` with all arguments, whose error every
  /// replica gets; after it replica 0 calls `merge_fn`, which fills its `result`; then every replica's `take`
  /// reads that.
  void merge(const detail::MergeArguments& arguments,
             detail::FunctionRef<void(std::span<void* const> arguments)> combine,
             detail::FunctionRef<void()> merge_fn, void* result,
             detail::FunctionRef<void(void* result)> take);

  Strategy& strategy_;
  int replica_id_;
  detail::ReplicaRun* run_;  // null in the default context
};

namespace detail {

/// A leaf of a collective's nest as a contribution.
template <class Leaf>
Contribution to_contribution(const Leaf& leaf) {
  if constexpr (std::is_same_v<Leaf, IndexedSlices>)
    return {Tensor(), leaf};
  else if constexpr (HostScalar<Leaf>)
    return {Tensor::scalar(leaf), {}};
  else {
    static_assert(std::convertible_to<const Leaf&, Tensor>,
                  "a collective's leaves are Tensors, variables, host scalars or IndexedSlices");
    return {static_cast<Tensor>(leaf), {}};
  }
}

/// A nest's leaves.
template <class NestType>
RecycledVector<Contribution> to_contributions(const NestType& nest) {
  std::size_t count = 0;
  for_each_leaf(nest, [&](const auto&) { ++count; });
  RecycledVector<Contribution> values;
  values.reserve(count);
  for_each_leaf(nest, [&](const auto& leaf) { values.push_back(to_contribution(leaf)); });
  return values;
}

template <class NestType>
auto take_contributions(const NestType& nest, RecycledVector<Contribution>&& reduced) {
  std::size_t next = 0;
  return map_leaves(nest, [&](const auto& leaf) {
    Contribution& result = reduced[next++];
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, IndexedSlices>)
      return std::move(*result.slices);
    else
      return std::move(result.tensor);
  });
}

}  // namespace detail

template <class NestType>
auto ReplicaContext::all_reduce(ReduceOp op, const NestType& nest, const CommunicationOptions& options) {
  if constexpr (std::same_as<NestType, Tensor>) {
    return all_reduce_one(op, nest, options);
  } else if constexpr (detail::HostScalar<NestType>) {
    return all_reduce_one(op, Tensor::scalar(nest), options);
  } else {
    const auto structure = detail::describe_structure<detail::RecycledString>(nest);
    return detail::take_contributions(
        nest, all_reduce_batch(op, detail::to_contributions(nest), structure, options));
  }
}

template <class NestType>
auto ReplicaContext::start_all_reduce(ReduceOp op, const NestType& nest,
                                      const CommunicationOptions& options) {
  const auto structure = detail::describe_structure<detail::RecycledString>(nest);
  auto [started, results] = start_all_reduce_batch(op, detail::to_contributions(nest), structure, options);
  auto result = detail::take_contributions(nest, std::move(results));
  return Work<decltype(result)>(std::move(started), std::move(result));
}

template <class NestType>
auto ReplicaContext::all_gather(const NestType& nest, std::int64_t axis,
                                const CommunicationOptions& options) {
  detail::RecycledVector<detail::Contribution> contributions = detail::to_contributions(nest);
  detail::RecycledVector<Tensor> values;
  values.reserve(contributions.size());
  for (detail::Contribution& value : contributions) {
    if (value.slices) detail::raise_sparse_gather(replica_id_);
    values.push_back(std::move(value.tensor));
  }
  const auto structure = detail::describe_structure<detail::RecycledString>(nest);
  detail::RecycledVector<Tensor> gathered = all_gather_batch(values, axis, structure, options);
  std::size_t next = 0;
  return detail::map_leaves(nest, [&](const auto&) { return std::move(gathered[next++]); });
}

template <class F, class... Args>
auto ReplicaContext::merge_call_as(std::string_view operation, F&& merge_fn, const Args&... args) {
  using Arguments = std::tuple<detail::decayed_t<Args>...>;
  using Result = decltype(merge_fn(std::declval<Strategy&>(), std::declval<detail::merged_t<Args>&>()...));
  using Kept = std::conditional_t<std::is_void_v<Result>, std::monostate, detail::decayed_t<Result>>;
  using Taken = detail::selected_t<Kept>;

  Arguments mine(args...);
  std::optional<std::tuple<detail::merged_t<Args>...>> merged;
  std::optional<Kept> result;
  std::optional<Taken> taken;
  auto combine = [&](std::span<void* const> all) {
    auto part = [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
      detail::RecycledVector<std::tuple_element_t<K, Arguments>*> parts;  // moved from: they are copies
      parts.reserve(all.size());
      for (void* arguments : all) parts.push_back(&std::get<K>(*static_cast<Arguments*>(arguments)));
      return detail::merge(parts, operation);
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      merged.emplace(part(std::integral_constant<std::size_t, I>())...);
    }
    (std::index_sequence_for<Args...>());
  };
  auto call = [&] {
    std::apply(
        [&](auto&... values) {
          if constexpr (std::is_void_v<Result>) {
            merge_fn(strategy_, values...);
            result.emplace();
          } else {
            result.emplace(merge_fn(strategy_, values...));
          }
        },
        *merged);
  };
  auto take = [&](void* from) {
    taken.emplace(detail::select(**static_cast<std::optional<Kept>*>(from), local_index()));
  };
  merge({operation, &typeid(std::tuple<Kept, Arguments>), &mine}, combine, call, &result, take);
  if constexpr (!std::is_void_v<Result>) return Taken(std::move(*taken));
}

}  // namespace lockstep

#pragma GCC visibility pop
