#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/detail/function_ref.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/strategy/colocation.hpp>
#include <lockstep/strategy/logical_device.hpp>
#include <lockstep/strategy/multi_step_context.hpp>
#include <lockstep/strategy/work.hpp>
#include <lockstep/values/nest.hpp>
#include <lockstep/values/reduce_value.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

class Strategy;
namespace detail {
class StrategyState;

// These throw InvalidArgument.
[[noreturn]] void raise_unresolved_argument(int size);
[[noreturn]] void raise_mirrored_argument(int size, int num_components);
}  // namespace detail

/// Tag: results of every component side by side.
struct Ungrouped {};
inline constexpr Ungrouped ungrouped;

/// The lower-level interface of a strategy: where values live and how they move. Contexts, threads and
/// streams as for Strategy.
class StrategyExtended {
 public:
  /// The devices replicas run on, in replica order; inside a logical_device guard the logical devices of that
  /// number. @throws ContextError  for the default strategy.
  [[nodiscard]] std::vector<Device> worker_devices() const;
  /// The devices variables live on. @throws ContextError  for the default strategy.
  [[nodiscard]] std::vector<Device> parameter_devices() const;
  /// tf.distribute's flags. between_graph: whether replicas run the same graph separately, as
  /// CentralStorageStrategy says of itself. require_static_shapes: never. should_init, should_checkpoint,
  /// should_save_summary: whether this process initialises variables and writes files; of several workers all
  /// initialise, and the chief writes.
  /// @throws Unsupported  between_graph and should_init, for the default strategy.
  [[nodiscard]] bool between_graph() const;
  [[nodiscard]] bool require_static_shapes() const noexcept { return false; }
  [[nodiscard]] bool should_init() const;
  [[nodiscard]] bool should_checkpoint() const noexcept;
  [[nodiscard]] bool should_save_summary() const noexcept { return should_checkpoint(); }

  /// Reduces over replicas, as Strategy::reduce without axes, onto the destinations. A mirrored value's mean,
  /// and a plain value's, is returned unchanged and not moved. Sources are never changed.
  /// @throws InvalidArgument  shapes or dtypes differ; a mirrored value summed, or a plain one over several
  /// replicas; booleans.
  [[nodiscard]] Mirrored<Tensor> reduce_to(ReduceOp op, const ReduceValue& value,
                                           const Destination& destination,
                                           const CommunicationOptions& options = {});
  [[nodiscard]] Mirrored<IndexedSlices> reduce_to(ReduceOp op, const PerReplica<IndexedSlices>& value,
                                                  const Destination& destination,
                                                  const CommunicationOptions& options = {});
  /// One result per pair, in order, equal bit for bit to the single calls. Sparse values come back dense. In
  /// steady state the std::vector returned is all that is taken from the heap.
  [[nodiscard]] std::vector<Mirrored<Tensor>> batch_reduce_to(
      ReduceOp op, const std::vector<std::pair<ReduceValue, Destination>>& pairs,
      const CommunicationOptions& options = {});
  /// Starts batch_reduce_to on the replicas' communication streams, after the work that is enqueued on the
  /// current streams so far, and returns without ordering these after it. Reductions run in the order in
  /// which they are started. The work keeps operands and results alive; operands must not be written before
  /// it was waited for.
  /// @throws as batch_reduce_to.
  [[nodiscard]] Work<std::vector<Mirrored<Tensor>>> start_batch_reduce_to(
      ReduceOp op, const std::vector<std::pair<ReduceValue, Destination>>& pairs,
      const CommunicationOptions& options = {});
  /// Copies to the destination's devices; without a destination to all worker devices. No component shares
  /// the tensor's storage.
  [[nodiscard]] Mirrored<Tensor> broadcast_to(const Tensor& tensor, const CommunicationOptions& options = {});
  [[nodiscard]] Mirrored<Tensor> broadcast_to(const Tensor& tensor, const Destination& destination,
                                              const CommunicationOptions& options = {});
  /// A host scalar is returned unchanged, so that it can later take a variable's dtype.
  template <Element T>
  [[nodiscard]] T broadcast_to(T scalar, const Destination&, const CommunicationOptions& = {}) {
    return scalar;
  }
  template <Element T>
  [[nodiscard]] T broadcast_to(T scalar, const CommunicationOptions& = {}) {
    return scalar;
  }

  /// Calls fn(Tensor& local, args...) for each component of the variable, in order, on the calling thread
  /// with the component's device current. Mirrored arguments arrive as the component; plain ones and
  /// variables unchanged. A `local` that fn made point at other storage is copied into the component.
  /// @return the results as a nest of Mirrored (void stays void); with `ungrouped` as a nest of vectors.
  /// Each `local` is a copy; when all calls have returned, the copies become the components, together. Until
  /// then other threads, and runs within fn, read the old ones; if a call throws, the variable is unchanged.
  /// Updates are serialised with the strategy's calls. The default strategy's are not: of two updates of one
  /// variable at the same time the later to end wins.
  /// @throws InvalidArgument  a per-replica argument (resolve it with reduce_to first), a mirrored one of
  /// another number of components where what is updated has several, another strategy's variable; a new value
  /// of another shape or dtype.
  template <class F, class... Args>
  auto update(const Variable& variable, F&& fn, const Args&... args) {
    return wrap_mirrored(update_components(variable, fn, args...));
  }
  template <class F, class... Args>
  auto update(Ungrouped, const Variable& variable, F&& fn, const Args&... args) {
    return wrap_vectors(update_components(variable, fn, args...));
  }

  /// The place of state that belongs to no single variable: all worker devices; with one device for all
  /// variables, the devices of the variable with the smallest name; for MeshStrategy the host.
  /// @throws InvalidArgument  no variables to choose from, where one is to be chosen.
  [[nodiscard]] NonSlot non_slot_devices(const std::vector<Variable>& variables) const;
  /// As update, once for each of the devices, without a variable: fn(args...). On one device for several
  /// replicas fn runs in cross-replica context, in no component's: a write in it reaches every component.
  /// @throws InvalidArgument  neither all worker devices nor one; as update.
  template <class F, class... Args>
  auto update_non_slot(const NonSlot& where, F&& fn, const Args&... args) {
    return wrap_mirrored(update_devices(where, fn, args...));
  }
  template <class F, class... Args>
  auto update_non_slot(Ungrouped, const NonSlot& where, F&& fn, const Args&... args) {
    return wrap_vectors(update_devices(where, fn, args...));
  }

  /// While the guard lives, variables made on this thread get exactly the devices of `variable`, or those
  /// that non_slot_devices gave. Guards nest.
  /// @throws ContextError  outside the strategy's cross-replica context.
  /// @throws InvalidArgument  a variable made outside every scope or by another strategy; devices that are
  /// neither all worker devices nor one.
  [[nodiscard]] ColocationScope colocate_vars_with(const Variable& variable);
  [[nodiscard]] ColocationScope colocate_vars_with(const NonSlot& where);
  /// While the guard lives, variables made on this thread in the strategy's scope, its runs, and in a replica
  /// function its work, go to logical device k of each replica; elsewhere to number 0. Guards nest.
  /// Reductions of values in cross-replica context run where their destination, or else they themselves, are.
  /// @throws InvalidArgument  not 0 <= k < Strategy::num_logical_devices().
  [[nodiscard]] LogicalDeviceScope logical_device(int k) const { return LogicalDeviceScope(strategy_, k); }

  /// Strategy::run without options.
  template <class F, class... Args>
  auto call_for_each_replica(F&& fn, const Args&... args);
  /// Calls fn(MultiStepContext&, inputs) in cross-replica context, `iterations` times, each time with the
  /// iterator's next element as one nest of PerReplica values, and returns the context with the outputs of
  /// the last step; `initial_loop_values` are the outputs that it does not set.
  /// @throws InvalidArgument  iterations < 1. @throws OutOfRange  the iterator ends before.
  template <class F, class Iterator>
  MultiStepContext run_steps_on_iterator(F&& fn, Iterator& iterator, int iterations = 1,
                                         const StepOutputs& initial_loop_values = {});

  /// The same as Strategy::make_numpy_dataset.
  template <class Arrays>
  [[nodiscard]] auto make_numpy_dataset(const Arrays& arrays) const;

  /// True only for this strategy's own variables.
  [[nodiscard]] bool variable_created_in_scope(const Variable& variable) const;
  /// The value on the current device if the variable lives there, else component 0.
  [[nodiscard]] Tensor read_var(const Variable& variable) const { return variable.value(); }
  /// The variable that a component belongs to; anything else is returned as it is.
  [[nodiscard]] std::variant<Variable, Tensor> value_container(const Tensor& value) const;
  [[nodiscard]] Variable value_container(const Variable& variable) const { return variable; }

 private:
  friend class detail::StrategyState;
  explicit StrategyExtended(Strategy& strategy) : strategy_(strategy) {}

  Mirrored<Tensor> broadcast(const Tensor& tensor, std::span<const Device> devices,
                             const CommunicationOptions& options);
  void for_each_component(const Variable& variable, detail::FunctionRef<void(Tensor& local, int i)> fn);
  void check_is_not_default(std::string_view what) const;
  void check_place(const NonSlot& where, std::string_view what) const;
  void for_each_device(const NonSlot& where, detail::FunctionRef<void(int i)> fn);

  /// Results of an update's calls, as the caller gets them.
  template <class Results>
  static auto wrap_mirrored(Results&& results) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<Results>, std::monostate>)
      return detail::map_leaves(detail::merge_results(results, "update"), [](const auto& leaf) {
        using Leaf = std::remove_cvref_t<decltype(leaf)>;
        if constexpr (detail::is_per_replica<Leaf>::value) {
          detail::RecycledVector<typename Leaf::value_type> components(leaf.begin(), leaf.end());
          return detail::ValueAccess::mirrored(std::move(components), leaf.is_same_object());
        } else {
          return leaf;
        }
      });
  }
  template <class Results>
  static auto wrap_vectors(Results&& results) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<Results>, std::monostate>)
      return detail::map_leaves(detail::merge_results(results, "update"), [](const auto& leaf) {
        using Leaf = std::remove_cvref_t<decltype(leaf)>;
        if constexpr (detail::is_per_replica<Leaf>::value)
          return std::vector<typename Leaf::value_type>(leaf.begin(), leaf.end());
        else
          return leaf;
      });
  }

  /// Argument i of an update.
  template <class T>
  static auto select_update(const T& nest, int i) {
    return detail::map_leaves(nest, [i](const auto& leaf) {
      using Leaf = std::remove_cvref_t<decltype(leaf)>;
      if constexpr (detail::is_per_replica<Leaf>::value) {
        if (leaf.size() != 1 && !leaf.is_same_object()) detail::raise_unresolved_argument(leaf.size());
        return typename Leaf::value_type(leaf[0]);
      } else if constexpr (detail::is_mirrored<Leaf>::value) {
        return typename Leaf::value_type(leaf[leaf.size() == 1 ? 0 : i]);
      } else {
        return detail::decayed_t<Leaf>(leaf);
      }
    });
  }

  template <class T>
  static void check_mirrored(const T& nest, int num_components) {
    detail::for_each_leaf(nest, [num_components](const auto& leaf) {
      if constexpr (detail::is_mirrored<std::remove_cvref_t<decltype(leaf)>>::value)
        if (num_components != 1 && leaf.size() != 1 && leaf.size() != num_components)
          detail::raise_mirrored_argument(leaf.size(), num_components);
    });
  }
  /// Refuses arguments before anything has changed.
  template <class... Args>
  static void check_arguments([[maybe_unused]] int num_components, const Args&... args) {
    (select_update(args, 0), ...);
    (check_mirrored(args, num_components), ...);
  }

  template <class F, class... Args>
  auto update_components(const Variable& variable, F& fn, const Args&... args) {
    using Returned = std::invoke_result_t<F&, Tensor&, decltype(select_update(args, 0))...>;
    check_arguments(static_cast<int>(detail::VariableAccess::devices(variable).size()), args...);
    if constexpr (std::is_void_v<Returned>) {
      for_each_component(
          variable, [&](Tensor& local, [[maybe_unused]] int i) { fn(local, select_update(args, i)...); });
      return std::monostate();
    } else {
      detail::RecycledVector<std::optional<detail::decayed_t<Returned>>> results;
      for_each_component(variable, [&](Tensor& local, [[maybe_unused]] int i) {
        results.emplace_back(fn(local, select_update(args, i)...));
      });
      return results;
    }
  }

  template <class F, class... Args>
  auto update_devices(const NonSlot& where, F& fn, const Args&... args) {
    using Returned = std::invoke_result_t<F&, decltype(select_update(args, 0))...>;
    check_arguments(static_cast<int>(where.devices.size()), args...);
    if constexpr (std::is_void_v<Returned>) {
      for_each_device(where, [&]([[maybe_unused]] int i) { fn(select_update(args, i)...); });
      return std::monostate();
    } else {
      detail::RecycledVector<std::optional<detail::decayed_t<Returned>>> results;
      for_each_device(where,
                      [&]([[maybe_unused]] int i) { results.emplace_back(fn(select_update(args, i)...)); });
      return results;
    }
  }

  Strategy& strategy_;
};

}  // namespace lockstep

#pragma GCC visibility pop
