#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/strategy/detail/function_call.hpp>
#include <lockstep/strategy/strategy.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Options of Strategy::function.
struct FunctionOptions {
  /// Beyond so many traces further signatures run as `run` does, which the log tells once. At least 1.
  int max_traces = 16;
  /// Launches read the arguments' tensors where they are, without a copy into the graph's own memory: for
  /// arguments that the caller writes in place between calls, such as a loader's buffers. Their addresses and
  /// strides are a part of the signature, so that tensors elsewhere are traced anew, and each trace keeps
  /// those that it reads.
  bool takes_addresses = false;
};

namespace detail {

class FunctionState;

/// A function of a strategy, without its types. Copies are the same one.
class FunctionHandle {
 public:
  /// @throws InvalidArgument  max_traces is below 1.
  FunctionHandle(Strategy& strategy, const FunctionOptions& options);

  /// @throws ContextError  the strategy was destroyed.
  int num_local_replicas() const;
  void call(FunctionCall& call) const;
  void clear() const;
  int num_traces() const;

 private:
  std::shared_ptr<FunctionState> state_;  // owners: every handle
};

}  // namespace detail

/// A step of a strategy that is traced: on GPUs its work is captured once and launched again, one graph for
/// each GPU, or for the GPUs on which a replica works together (MeshStrategy, CentralStorageStrategy). It is
/// called with the arguments of `run`, and returns the results of `run`. Made by Strategy::function; copies
/// are the same function, and so is one that was moved from.
///
/// The first call of a signature runs as `run` does. The second one is traced: the function runs on every
/// replica, and on GPUs its work is captured, not done, and then launched. Later ones are launches, and do
/// not call the function. A signature is the arguments' structure, the dtypes, shapes and devices of tensors,
/// the identity of variables, and the values of numbers and text; one that is new is traced anew (so are
/// tensors in other memory, with FunctionOptions::takes_addresses). On the host, and where work on GPUs
/// cannot be captured, each call runs the function, by the same rules.
///
/// The rules, whose breach is a ContextError but for the last two:
/// - Values are not there in a traced call: `item`, `to_vector` and waiting throw, in merge functions too; so
///   do copies between a device and the host where work is captured. Return tensors, and read them after the
///   call.
/// - Variables are made before, or in the first call alone.
/// - Arguments that are tensors are read-only (InvalidArgument); results are Tensors, variables and nests of
///   them (a static_assert tells). Results are fresh: later calls do not change them, and what the function
///   returns of its arguments or of a variable's value() is a copy.
/// - What else the function does on the host it does when it is called, and not at a launch: a number that it
///   captures is that of the trace. Tensors that it captures must live, unwritten by others, as long as it;
///   variables may be written. Optimizers, metrics and gradient accumulators keep their own state right: each
///   launch has its learning rate and its step's number. `Optimizer` says which optimizers can be traced.
///
/// Memory is private to each graph. On GPUs a tensor of a variable's value() that the caller holds keeps the
/// trace from being made (Unsupported), as Variable says; one that the step itself holds, while it writes the
/// variable, is a copy in the graph, for which the step is traced once more. A call whose trace throws has
/// enqueued nothing on GPUs and has changed neither variables nor optimizers there; on the host, and in the
/// first call, what was done before the exception is done. The next call is traced again.
///
/// Work on GPUs cannot be captured with CentralStorageStrategy whose variables are on the host; with workers,
/// which meet on their hosts in each collective, also where NCCL carries it; with the default strategy; or
/// with an explicit CrossDeviceOps; nor where a tensor among the arguments is on no device of its replica.
/// The log tells so once for each function.
///
/// A launch is enqueued on the current streams of the replicas' devices; those of a graph of several devices
/// are joined. The second call waits for these streams before it captures. Up to 64 launches may be on their
/// way; the next one waits. These streams must live as long as the function. A call while one of them is
/// captured throws ContextError. Launches of one strategy's functions follow each other, whatever their
/// streams, by events where the streams differ.
///
/// Graphs hold the strategy's communicators. The strategy's end drops all traces; a call after it throws
/// ContextError. Functions may be destroyed before or after it, but not during a call.
///
/// Thread safety: calls of several threads are serialised with the strategy's calls. In a merge function of a
/// function's call another function of the strategy runs as a part of it.
template <class F>
class Function {
 public:
  // Copies alone, so that one that was moved from is the same function, too.
  Function(const Function&) = default;
  Function& operator=(const Function&) = default;

  /// @throws as Strategy::run. @throws ContextError  as said above; in a replica function of `run`.
  template <class... Args>
  auto operator()(const Args&... args);

  /// Drops all traces and their graphs. Launches that are under way go on. @throws ContextError  in a call of
  /// it.
  void clear() { handle_.clear(); }
  /// The number of signatures that were met, counted anew where the state of a gradient accumulator differs.
  [[nodiscard]] int num_traces() const { return handle_.num_traces(); }

 private:
  friend class Strategy;
  Function(Strategy& strategy, F fn, const FunctionOptions& options)
      : fn_(std::make_shared<F>(std::move(fn))), handle_(strategy, options) {}

  template <class... Args>
  auto call(const Args&... args);

  std::shared_ptr<F> fn_;  // owners: every copy
  detail::FunctionHandle handle_;
};

template <class F>
template <class... Args>
auto Function<F>::operator()(const Args&... args) {
  if constexpr (detail::kTakesStep<F, Args...>) {
    return std::apply([&](const auto&... members) { return call(members...); }, args...);
  } else {
    return call(args...);
  }
}

template <class F>
template <class... Args>
auto Function<F>::call(const Args&... args) {
  static_assert(detail::takes_arguments<F, Args...> || detail::takes_context<F, Args...>,
                "a function of a strategy is called with arguments that its function takes, as run's");
  using Returned = decltype(detail::call_replica_function(*fn_, std::declval<ReplicaContext&>(),
                                                          std::declval<detail::selected_t<Args>>()...));
  using Kept = detail::decayed_t<Returned>;
  static_assert(
      detail::has_only_tensors<Kept>(),
      "a function of a strategy returns Tensors, variables, or nests of them: what the host computes "
      "is not computed again when the step is launched. Return a Tensor, as Tensor::scalar");
  const int n = handle_.num_local_replicas();
  (detail::check_num_components(args, n, "function"), ...);

  detail::FunctionCall call;
  call.signature.add(reinterpret_cast<std::uintptr_t>(&detail::kTypesId<F, Args...>));
  (detail::add_to_signature<detail::decayed_t<Args>>(args, call.signature), ...);
  for (int i = 0; i < n; ++i) {
    call.begins.push_back(call.inputs.size());
    (detail::append_inputs<detail::decayed_t<Args>>(args, i, call.inputs), ...);
  }
  call.begins.push_back(call.inputs.size());

  const auto run = [&](ReplicaContext& context, [[maybe_unused]] int i,
                       [[maybe_unused]] const Tensor* next) -> Kept {
    std::tuple<detail::selected_t<Args>...> values{detail::function_argument(args, i, next)...};
    return std::apply(
        [&](auto&... value) -> Kept {
          return detail::call_replica_function(*fn_, context, std::move(value)...);
        },
        values);
  };
  if constexpr (std::is_void_v<Kept>) {
    const auto none = [] { return std::shared_ptr<const void>(); };
    const auto ignore = [](const void*) {};
    const auto no_results = [](int, detail::FunctionRef<void(Tensor&)>) {};
    call.run_replica = run;
    call.for_each_result = no_results;
    call.copy_results = none;
    call.set_results = ignore;
    handle_.call(call);
  } else {
    using Results = detail::RecycledVector<std::optional<Kept>>;
    Results results(static_cast<std::size_t>(n));
    const auto run_replica = [&](ReplicaContext& context, int i, const Tensor* inputs) {
      results[static_cast<std::size_t>(i)].emplace(run(context, i, inputs));
    };
    const auto for_each_result = [&](int i, detail::FunctionRef<void(Tensor&)> act) {
      std::optional<Kept>& result = results[static_cast<std::size_t>(i)];
      result.emplace(detail::map_leaves(Kept(std::move(*result)), [&](const auto& leaf) {
        auto copy = leaf;
        if constexpr (std::is_same_v<decltype(copy), Tensor>) act(copy);
        return copy;
      }));
    };
    const auto copy_results = [&]() -> std::shared_ptr<const void> {
      return std::make_shared<const Results>(results);
    };
    const auto set_results = [&](const void* copy) { results = *static_cast<const Results*>(copy); };
    call.run_replica = run_replica;
    call.for_each_result = for_each_result;
    call.copy_results = copy_results;
    call.set_results = set_results;
    handle_.call(call);
    return detail::merge_results(results, "function");
  }
}

template <detail::ReplicaFunction F>
Function<std::decay_t<F>> Strategy::function(F&& fn) {
  return function(std::forward<F>(fn), FunctionOptions{});
}

template <detail::ReplicaFunction F>
Function<std::decay_t<F>> Strategy::function(F&& fn, const FunctionOptions& options) {
  return {*this, std::forward<F>(fn), options};
}

}  // namespace lockstep

#pragma GCC visibility pop
