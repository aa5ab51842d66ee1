#pragma once

// The templates of Strategy and StrategyExtended, but for those of input (strategy/input.hpp).

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/strategy/detail/cross_replica.hpp>
#include <lockstep/strategy/detail/replica_function.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/values/nest.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace detail {

/// A struct of nests, one for each replica.
template <class Leaf>
concept RecordLeaf = is_per_replica<Leaf>::value && requires(const Leaf& leaf) {
  lockstep_nest_members(leaf[0]);
};
template <RecordLeaf Leaf>
using member_indices_t = std::make_index_sequence<
    std::tuple_size_v<decltype(lockstep_nest_members(std::declval<typename Leaf::value_type&>()))>>;

/// Member K of the replicas' structs, merged as if each replica had returned it alone.
template <std::size_t K, RecordLeaf Leaf>
auto merged_member(const Leaf& records) {
  using Member = std::remove_cvref_t<decltype(std::get<K>(lockstep_nest_members(records[0])))>;
  RecycledVector<const Member*> members;
  for (const auto& record : records) members.push_back(&std::get<K>(lockstep_nest_members(record)));
  return merge(members, "reduce");
}

/// A leaf of a value to reduce or gather; a struct's are its members.
template <class Leaf>
void append_reduce_values(const Leaf& leaf, RecycledVector<ReduceValue>& values) {
  if constexpr (RecordLeaf<Leaf>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (for_each_leaf(merged_member<I>(leaf),
                     [&](const auto& member) { append_reduce_values(member, values); }),
       ...);
    }
    (member_indices_t<Leaf>());
  } else {
    static_assert(std::convertible_to<const Leaf&, ReduceValue>,
                  "only numbers, Tensors, variables and IndexedSlices can be reduced or gathered");
    values.push_back(ReduceValue(leaf));
  }
}

template <class Leaf>
inline constexpr bool is_sparse_leaf =
    std::is_same_v<Leaf, IndexedSlices> || std::is_same_v<Leaf, PerReplica<IndexedSlices>> ||
    std::is_same_v<Leaf, Mirrored<IndexedSlices>>;

/// A leaf's result, taken from the list in the order of append_reduce_values.
template <class Leaf>
auto take_reduced(const Leaf& leaf, RecycledVector<Contribution>& results, std::size_t& next) {
  if constexpr (RecordLeaf<Leaf>) {
    typename Leaf::value_type record = leaf[0];
    auto members = lockstep_nest_members(record);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (set_member(std::get<I>(members),
                  map_leaves(merged_member<I>(leaf),
                             [&](const auto& member) { return take_reduced(member, results, next); })),
       ...);
    }
    (member_indices_t<Leaf>());
    return record;
  } else if constexpr (is_sparse_leaf<Leaf>) {
    return std::move(*results[next++].slices);
  } else {
    return std::move(results[next++].tensor);
  }
}

}  // namespace detail

template <detail::ReplicaFunction F, class... Args>
auto Strategy::run(F&& fn, const Args&... args) {
  if constexpr (detail::kTakesStep<F, Args...>) {
    return std::apply([&](const auto&... members) { return run(fn, members...); }, args...);
  } else {
    return run_with(fn, args...);
  }
}

template <class F, class... Args>
auto Strategy::run_with(F& fn, const Args&... args) {
  static_assert(
      detail::takes_arguments<F, Args...> || detail::takes_context<F, Args...>,
      "run(fn, args...): fn must be callable as fn(args...) or as fn(ReplicaContext&, args...), "
      "where each distributed argument arrives as its component, PerReplica<T> as a T that is taken "
      "by value or as const T&, and a tuple alone as itself or as its members");
  using Returned = decltype(detail::call_replica_function(fn, std::declval<ReplicaContext&>(),
                                                          std::declval<detail::selected_t<Args>>()...));
  using Kept = detail::decayed_t<Returned>;  // of what may refer to a copy of an argument
  (detail::check_num_components(args, num_local_replicas(), "run"), ...);
  const auto call = [&](ReplicaContext& context, [[maybe_unused]] int i) {
    constexpr std::size_t kFirst = detail::takes_arguments<F, Args...> ? 0 : 1;  // parameter with an argument
    return [&]<std::size_t... K>(std::index_sequence<K...>)->Kept {
      return detail::call_replica_function(fn, context, detail::replica_argument<F, kFirst + K>(args, i)...);
    }
    (std::index_sequence_for<Args...>());
  };
  if constexpr (std::is_void_v<Returned>) {
    run_replicas(call);
  } else {
    detail::RecycledVector<std::optional<Kept>> results(static_cast<std::size_t>(num_local_replicas()));
    const auto job = [&](ReplicaContext& context, int i) {
      results[static_cast<std::size_t>(i)].emplace(call(context, i));
    };
    run_replicas(job);
    return detail::merge_results(results, "run");
  }
}

template <class Value>
auto Strategy::reduce(ReduceOp op, const Value& value, const Axes& axes) {
  detail::RecycledVector<ReduceValue> values;
  detail::for_each_leaf(value, [&](const auto& leaf) { detail::append_reduce_values(leaf, values); });
  auto results = reduce_batch(op, values, axes);
  std::size_t next = 0;
  return detail::map_leaves(value,
                            [&](const auto& leaf) { return detail::take_reduced(leaf, results, next); });
}

template <class Value>
auto Strategy::gather(const Value& value, std::int64_t axis) {
  detail::check_num_components(value, num_local_replicas(), "gather");
  detail::RecycledVector<ReduceValue> values;
  detail::for_each_leaf(value, [&](const auto& leaf) { detail::append_reduce_values(leaf, values); });
  auto results = gather_batch(values, axis);
  std::size_t next = 0;
  return detail::map_leaves(value,
                            [&](const auto& leaf) { return detail::take_reduced(leaf, results, next); });
}

template <class Value>
auto Strategy::local_results(const Value& value) const {
  detail::RecycledMap<const detail::VariableState*, detail::RecycledVector<Tensor>>
      snapshots;  // of each variable, one
  auto component = [&](int i) {
    return detail::map_leaves(value, [&](const auto& leaf) {
      using Leaf = std::remove_cvref_t<decltype(leaf)>;
      if constexpr (std::is_same_v<Leaf, Variable>) {
        detail::RecycledVector<Tensor>& components = snapshots[detail::VariableAccess::state(leaf).get()];
        if (components.empty()) components = detail::VariableAccess::snapshot(leaf);
        const auto size = static_cast<int>(components.size());
        detail::check_component_index(size > 1 ? i : 0, size);
        return components[size > 1 ? static_cast<std::size_t>(i) : 0];
      } else {
        return detail::select(leaf, i);
      }
    });
  };
  const int n = detail::has_distributed_leaf<Value>()
                    ? detail::num_components(value, num_local_replicas(), "local_results")
                    : 1;
  std::vector<decltype(component(0))> results;
  results.reserve(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) results.push_back(component(i));
  return results;
}

template <class Batch>
std::int64_t Strategy::num_rows(const Batch& batch) const {
  std::int64_t rows = 0;
  for (const auto& part : local_results(batch)) {
    std::vector<Tensor> tensors;
    detail::for_each_leaf(part, [&](const Tensor& tensor) { tensors.push_back(tensor); });
    rows += detail::num_rows(tensors, "num_rows");
  }
  return rows;
}

template <std::invocable<ValueContext> F>
auto Strategy::distribute_values_from_function(F&& value_fn) {
  using Returned = detail::decayed_t<std::invoke_result_t<F&, ValueContext>>;
  static_assert(!std::is_void_v<Returned>, "value_fn must return the replica's value");
  detail::RecycledVector<std::optional<Returned>> values(static_cast<std::size_t>(num_local_replicas()));
  detail::call_in_cross_replica_context(*this, "distribute_values_from_function", [&] {
    for (int i = 0; i < num_local_replicas(); ++i)
      values[static_cast<std::size_t>(i)].emplace(
          value_fn(ValueContext(first_replica() + i, num_replicas_in_sync())));
  });
  return detail::map_leaves(
      detail::merge_results(values, "distribute_values_from_function"), [](const auto& leaf) {
        using Leaf = std::remove_cvref_t<decltype(leaf)>;
        if constexpr (detail::is_per_replica<Leaf>::value)
          return detail::ValueAccess::per_replica(
              detail::RecycledVector<typename Leaf::value_type>(leaf.begin(), leaf.end()));  // always wrapped
        else
          return leaf;
      });
}

template <class F, class... Args>
auto StrategyExtended::call_for_each_replica(F&& fn, const Args&... args) {
  return strategy_.run(std::forward<F>(fn), args...);
}

template <class F, class Iterator>
MultiStepContext StrategyExtended::run_steps_on_iterator(F&& fn, Iterator& iterator, int iterations,
                                                         const StepOutputs& initial_loop_values) {
  detail::check_iterations(iterations);
  MultiStepContext context(strategy_);
  detail::check_cross_replica(strategy_, "run_steps_on_iterator");
  for (int step = 0; step < iterations; ++step) {
    const auto inputs = iterator.next();
    detail::call_in_cross_replica_context(strategy_, "run_steps_on_iterator", [&] {
      context.begin_step(initial_loop_values);
      fn(context, inputs);
    });
  }
  return context;
}

}  // namespace lockstep

#pragma GCC visibility pop
