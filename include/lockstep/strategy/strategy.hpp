#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/detail/function_ref.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/report.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/strategy/strategy_extended.hpp>
#include <lockstep/values/nest.hpp>
#include <lockstep/values/reduce_value.hpp>
#include <lockstep/values/sharded_tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

class Dataset;
template <class F>
class Function;
struct FunctionOptions;
template <class D>
class DistributedDataset;
template <class E>
class TypedDataset;
namespace cluster {
class Resolver;
}

/// Hints for compilers that specialise a step; accepted by every strategy and without effect.
struct RunOptions {
  bool enable_dynamic_batch_size = true;
  bool bucketizing_dynamic_shape = false;
};

/// Which replica a value is made for.
class ValueContext {
 public:
  explicit ValueContext(int replica_id_in_sync_group = 0, int num_replicas_in_sync = 1)
      : replica_id_(replica_id_in_sync_group), num_replicas_(num_replicas_in_sync) {}
  [[nodiscard]] int replica_id_in_sync_group() const noexcept { return replica_id_; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return num_replicas_; }

 private:
  int replica_id_;
  int num_replicas_;
};

/// One replica's failure in the last `run`.
struct ReplicaFailure {
  int replica;
  std::exception_ptr error;
  std::string message;
};

namespace detail {

template <class F>
concept ReplicaFunction = !std::is_same_v<std::decay_t<F>, RunOptions>;

class FunctionState;
struct InputTarget;
struct StrategyConfig;
class StrategyState;

}  // namespace detail

/// A way to keep replicas of a computation in step: which devices they run on, how values and variables are
/// kept on them, how they are combined. Neither copied nor moved. Its variables and its scope are used while
/// it lives: reads and writes of the variables, and calls in the scope, throw ContextError after that.
///
/// Calls are allowed in the strategy's cross-replica context, and in the default context, where they enter
/// its scope by themselves; elsewhere they throw ContextError. Several host threads may call one strategy;
/// their runs, reductions and writes are serialised, but for the default strategy's. `run`, `update`,
/// `update_non_slot` and merge calls call functions of the caller's meanwhile; a thread that such a function
/// waits for may read variables and take elements of datasets, but not run, reduce or write. A call returns
/// when its work is enqueued on the devices' current streams; only functions of the caller's wait for a
/// device, and destruction, which waits for other threads' calls and the devices' current streams; calls
/// meanwhile, as by thread_local objects of replicas, throw ContextError. Destruction in a function that one
/// of its own calls has called ends the program, with a message (std::terminate). std::exit destroys no
/// strategy that is in use.
///
/// Steps of dense tensors that repeat take nothing from the heap (operator new), on any thread, after the
/// first ones: runs and what their replicas call, reductions, gathers, reads and writes of variables,
/// optimizers, metrics. Tensors' memory comes from the devices' pools, lists from memory that is recycled, up
/// to 4 MiB for each size. Exceptions: each std::vector, std::map and std::string that a call takes by value,
/// gives to a function or returns is the caller's own, as the one that local_results or an all_reduce of a
/// std::vector returns; so are lists beyond 1 MiB, and the std::vectors of an explicit CrossDeviceOps.
///
/// A fork of the process has none of its threads. There, calls of a strategy that has run several replicas
/// before, or that was in a call, or is of several processes, throw ContextError; its variables can be read,
/// and it can be destroyed, as anywhere. An object that another thread was reading, writing or making at the
/// fork (a variable, a communicator, the first device) throws ContextError there, too. A fork never waits for
/// such a thread.
class Strategy {
 public:
  virtual ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// Cross-replica context until the end of the block.
  [[nodiscard]] StrategyScope scope() { return StrategyScope(*this); }
  [[nodiscard]] StrategyExtended& extended() noexcept;
  [[nodiscard]] int num_replicas_in_sync() const noexcept;
  /// The number of devices of each replica: 1, except on MeshStrategy.
  [[nodiscard]] int num_logical_devices() const noexcept;
  /// The resolver of the strategy's cluster; null for strategies of a single process.
  [[nodiscard]] std::shared_ptr<cluster::Resolver> cluster_resolver() const noexcept;

  /// Calls `fn` once for each local replica, all at the same time, each with the replica's device current
  /// (in a logical_device guard its logical device of that number),
  /// replica 0 on the calling thread and the others on threads of the strategy's, and waits for all.
  /// `fn(args...)`, or `fn(ReplicaContext&, args...)`: distributed arguments arrive as the replica's
  /// component, variables as themselves, all else unchanged. An argument that the function, no template,
  /// takes as a reference to const is not copied, nor is its component; others are, for each replica. Results
  /// are moved.
  ///
  /// @return the results merged leaf by leaf: containers keep their structure, leaves become PerReplica with
  /// one component per local replica (also with one replica), a variable stays the variable; void stays void.
  /// A tuple or pair as the only argument, as a dataset's step, is passed as its members if the function
  /// cannot take it as one.
  ///
  /// @throws the exception of the lowest failing replica's function, unchanged, when all functions have
  /// returned, late ones too; last_failures() has all. Replicas waiting for it are released and the strategy
  /// is usable again.
  /// @throws InvalidArgument  a distributed argument has another number of components; results differ in
  /// structure.
  /// @throws ContextError  in a replica function (nested run); replicas make a different number of merge
  /// calls or collectives.
  template <detail::ReplicaFunction F, class... Args>
  auto run(F&& fn, const Args&... args);
  template <detail::ReplicaFunction F, class... Args>
  auto run(const RunOptions&, F&& fn, const Args&... args) {
    return run(std::forward<F>(fn), args...);
  }

  /// Makes `fn`, a function for `run`, a step that is traced: on GPUs its work is captured in the second call
  /// of a signature and launched in later ones, as one graph for each GPU. lockstep/strategy/function.hpp
  /// declares Function, and has the rules. `fn` is moved or copied.
  /// @throws InvalidArgument  options.max_traces is below 1.
  template <detail::ReplicaFunction F>
  [[nodiscard]] Function<std::decay_t<F>> function(F&& fn);
  template <detail::ReplicaFunction F>
  [[nodiscard]] Function<std::decay_t<F>> function(F&& fn, const FunctionOptions& options);

  /// Combines a value over replicas, leaf by leaf, and, with axes, along these axes first.
  ///
  /// Without axes the components have equal shapes; mean divides by the number of replicas. With axes they
  /// may differ along these, also be empty; mean divides by the number of elements actually present along the
  /// axes on all replicas together, so a partial batch is averaged rightly. (For other weights, reduce
  /// numerator and denominator with sum and divide.) min and max skip empty components. One replica is
  /// no exception: without axes its result is the value itself. A mirrored value's mean is itself; its sum is
  /// refused, for one replica too. Integer sums wrap in their own type; integer means are true divisions
  /// (reduced_dtype). f16, bf16, f8 are added in float. mean over no elements at all is NaN.
  ///
  /// @return the nest with each leaf a Tensor on the current device (IndexedSlices stay).
  /// @throws InvalidArgument  shapes differ (names the replicas); an axis out of range, scalars with an axis;
  /// a plain value summed over several replicas; booleans; min or max of no elements.
  template <class Value>
  [[nodiscard]] auto reduce(ReduceOp op, const Value& value, const Axes& axes = {});

  /// This process's components: one nest per local replica, distributed leaves replaced by the component (a
  /// variable's by its read-only Tensor), plain leaves, mirrored values and variables of one component
  /// repeated; for a value without distributed leaves just that value.
  /// @throws InvalidArgument  distributed leaves of different numbers of components. @throws ContextError  a
  /// variable that cannot be read here.
  template <class Value>
  [[nodiscard]] auto local_results(const Value& value) const;

  /// The number of rows that a batch, any nest of tensors, has on all of this process's replicas together:
  /// the divisor of a loss's sum. @throws InvalidArgument  no tensors, scalars, or tensors of different
  /// numbers of rows on a replica.
  template <class Batch>
  [[nodiscard]] std::int64_t num_rows(const Batch& batch) const;

  /// Concatenates components in replica order along `axis`; sizes along it may differ. A plain tensor is
  /// returned unchanged, and so is one object that all replicas gave (PerReplica::is_same_object):
  /// ReplicaContext::all_gather, which knows of no other replica's object, repeats it.
  /// @return the nest with each leaf a Tensor on the current device.
  /// @throws InvalidArgument  scalars (expand first), ranks or other extents differ, axis out of range; the
  /// number of components is not that of replicas.
  /// @throws Unsupported  sparse rows.
  template <class Value>
  [[nodiscard]] auto gather(const Value& value, std::int64_t axis);

  /// Calls value_fn(ValueContext) once per local replica, in replica order, and wraps: every leaf becomes
  /// PerReplica, even when all are the same object. Components stay where value_fn put them.
  /// @throws InvalidArgument  structures differ between replicas.
  template <std::invocable<ValueContext> F>
  [[nodiscard]] auto distribute_values_from_function(F&& value_fn);

  // Input: lockstep/strategy/input.hpp defines these templates, and includes the input pipeline.

  /// Splits each batch of the dataset over the replicas, in row order, and places each part on its replica's
  /// device. Every component is split by its own rows, as InputOptions::batch_split says. No rows are left
  /// out. A strategy that does not synchronise passes elements whole. Nothing is read before a pass starts.
  /// @throws InvalidArgument  elements without rows (batch the dataset first); options that contradict each
  /// other, a negative buffer, weights that are wrong.
  /// @throws Unsupported  InputReplicationMode::per_replica.
  template <class E>
  [[nodiscard]] DistributedDataset<detail::merged_t<E>> distribute_dataset(const TypedDataset<E>& dataset,
                                                                           const InputOptions& options = {});
  template <std::same_as<Dataset> D>
  auto distribute_dataset(const D&, const InputOptions& = {});

  /// Calls fn(InputContext) in cross-replica context, once (with InputReplicationMode::per_replica once for
  /// each replica), and deals the elements of the TypedDataset it returns: each replica takes a whole one in
  /// turn. Batches should have the per-replica size. Where the last step has too few, the other replicas get
  /// elements without rows; if all shapes are static, the step is left out instead.
  /// @throws InvalidArgument  as distribute_dataset; datasets for each replica that differ in the keys,
  /// lengths or dtypes of their elements (on `next`, where they are not known before). @throws Unsupported
  /// per_replica on another strategy than MirroredStrategy.
  template <std::invocable<InputContext> F>
  [[nodiscard]] auto distribute_datasets_from_function(F&& fn, const InputOptions& options = {});

  /// A dataset of arrays, neither batched nor distributed yet. Elements are slices along the first axis: of a
  /// .npy file (each a Tensor: `as<Tensor>()` before distribute_dataset), of a .npz file (each a
  /// std::map<std::string, Tensor>: `as` that), or of a nest of Tensors, which are copied to the host once. A
  /// std::vector<Tensor> is a list: it is stacked first, so its elements are the tensors.
  /// @throws as load_npy, load_npz. @throws InvalidArgument  a scalar, different numbers of rows, a list that
  /// cannot be stacked.
  template <class Arrays>
  [[nodiscard]] auto make_numpy_dataset(const Arrays& arrays);

  /// Places a tensor on a logical device, where further work on it runs, as operations run on their
  /// operands' device. These three functions are for one replica: in a replica function that one, in a
  /// function given to `update` the component's, elsewhere replica 0. Copies are ordered by the devices'
  /// current streams.
  /// @param logical_device  0 <= logical_device < num_logical_devices().
  /// @return the tensor there; itself when it is there already.
  /// @throws InvalidArgument  there is no such logical device. @throws ContextError  inside the scope of
  /// another strategy.
  [[nodiscard]] Tensor assign_to_logical_device(const Tensor& tensor, int logical_device);
  /// Cuts a tensor in equal tiles, one on each logical device: tile (i, j, ...) on number i * dims[1] * ... +
  /// j * ... of it, row-major.
  /// @param dims  [rank]: how many tiles along each axis.
  /// @throws InvalidArgument  not one entry for each axis; an entry that does not divide its axis; their
  /// product is not num_logical_devices(); checked in this order. @throws ContextError  as above.
  [[nodiscard]] ShardedTensor split_to_logical_devices(const Tensor& tensor, const std::vector<int>& dims);
  /// Copies a tensor to every logical device. @throws ContextError  as above.
  [[nodiscard]] ShardedTensor replicate_to_logical_devices(const Tensor& tensor);

  /// A variable of this strategy, made in its scope, which is entered for it.
  /// @throws as Variable's constructors. @throws ContextError  in a replica function or another strategy's
  /// scope.
  template <class InitialValue>
  [[nodiscard]] Variable make_variable(InitialValue&& initial_value, VariableOptions options = {}) {
    const StrategyScope here(*this);
    return Variable(std::forward<InitialValue>(initial_value), std::move(options));
  }

  /// Every replica that failed in the last `run` of this strategy, lowest first; empty after a run without
  /// failures. While a run is under way on another thread: those that have failed so far. Replicas that were
  /// only released are not listed. The default strategy lists those of this thread's last `run`.
  [[nodiscard]] std::vector<ReplicaFailure> last_failures() const;

  /// What the replicas did last: of each logical device, of the replicas together where these are several,
  /// and of workers. Others are asked, for half a second at most; whose worker has not answered is not
  /// known. Of one replica alone, too. Any thread may call, at any time, also while calls are stuck.
  [[nodiscard]] Report report() const;

  /// "MirroredStrategy", for messages.
  [[nodiscard]] std::string_view name() const noexcept;

 protected:
  /// @throws InvalidArgument  a device twice. @throws NotFound  there is no such device.
  /// @throws ContextError  a device of another task.
  explicit Strategy(detail::StrategyConfig&& config);

 private:
  friend class detail::FunctionState;
  friend class detail::StrategyState;

  template <class F, class... Args>
  auto run_with(F& fn, const Args&... args);
  /// Runs job(context) for every replica, as `run` says.
  void run_replicas(detail::FunctionRef<void(ReplicaContext&, int)> job);
  detail::RecycledVector<detail::Contribution> reduce_batch(ReduceOp op,
                                                            const detail::RecycledVector<ReduceValue>& values,
                                                            const Axes& axes);
  detail::RecycledVector<detail::Contribution> gather_batch(const detail::RecycledVector<ReduceValue>& values,
                                                            std::int64_t axis);
  int num_local_replicas() const noexcept;
  /// The id of local replica 0.
  int first_replica() const noexcept;
  detail::InputTarget input_target() const;
  /// The logical devices of the current context's replica.
  std::vector<Device> logical_devices_here(std::string_view what) const;

  detail::StrategyState* const state_;  // owned
};

}  // namespace lockstep

#pragma GCC visibility pop

#include <lockstep/strategy/strategy-inl.hpp>
