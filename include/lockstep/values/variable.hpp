#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/device.hpp>
#include <lockstep/scalar.hpp>
#include <lockstep/tensor.hpp>
#include <lockstep/values/per_replica.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

class ReplicaContext;
class Strategy;
struct IndexedSlices;
namespace detail {
struct VariableState;
}

/// When the components of a variable are brought together.
enum class VariableSynchronization : std::uint8_t { automatic, none, on_write, on_read };
/// How replicas' writes (on_write), or components (on_read), are combined. A mean is a sum that is divided,
/// and rounds as such: of three equal numbers it need not be that number. only_first_replica is exact.
enum class VariableAggregation : std::uint8_t { none, sum, mean, only_first_replica };

std::string_view name(VariableSynchronization synchronization);
std::string_view name(VariableAggregation aggregation);
std::ostream& operator<<(std::ostream& out, VariableSynchronization synchronization);
std::ostream& operator<<(std::ostream& out, VariableAggregation aggregation);

struct VariableOptions {
  std::string name{};               ///< Component i > 0 is called NAME/replica_i. Empty: "Variable".
  std::optional<bool> trainable{};  ///< Default: true, false for on_read.
  VariableSynchronization synchronization =
      VariableSynchronization::automatic;  ///< automatic is on_write; none is refused.
  VariableAggregation aggregation = VariableAggregation::none;
};

/// State that a strategy keeps once on each of its parameter devices, equal at birth.
///
/// A cheap handle: copies are the same variable. Belongs to the strategy in whose scope it was made (outside
/// every scope: the default strategy, one component on the current device): once that is destroyed, and in
/// another strategy's scope, reads, of whatever kind, and writes throw ContextError. A read gives the
/// component that belongs to the context: in a replica its own, in `update` the one being updated, elsewhere
/// the one on the current device, else component 0. A variable made outside every scope is read in every
/// strategy's contexts, in a replica as a value of the replica's own on its device, and written in all but
/// replica functions (ContextError: the replicas would race).
///
/// Writes to on_write ("mirrored") variables: in cross-replica or default context every component takes the
/// value; in `update` that component alone; in a replica the replicas' values are aggregated first, so every
/// replica must make the call.
///
/// on_read ("sync-on-read") variables are for sums over a run, as metrics are: in a replica reads and writes
/// concern the replica's own component and are free of communication; elsewhere a read combines the
/// components by the aggregation (sum and mean are enqueued on the devices' streams; none:
/// InvalidArgument). assign(x) there gives each component x, whose mean is x but for a mean's rounding; with
/// sum x / N, and the first ones what that leaves over, so that x is read. assign_add and assign_sub are
/// refused with sum. With one device for all variables there is one component, whose writes are aggregated.
///
/// In a replica function every replica makes the same variables in the same order, and all get the same
/// object: replica 0's, whose initial value and options count; names may differ in a trailing _number,
/// logical_device guards may not.
///
/// Reads and writes take nothing from the heap in steady state, but scatters do.
///
/// Once a capture of a stream, as for a CUDA graph, has read or written the variable, it stays in its memory,
/// where the graph's launches find it: reads outside captures copy it, and a write while a tensor of a
/// value() from before, or from within a capture, is held throws Unsupported. Drop that tensor, or keep a
/// clone(). The variable is the caller's to keep as long as the graph. A
/// GPU's stream that is captured reads a variable on a CPU at once: every launch has that value again.
///
/// Thread safety: any thread may read at any time: a read waits for a write of this variable that another
/// thread is making, never for a run. Writes outside replica functions are serialised with the strategy's
/// calls; those of the default strategy's variables with one another. In a fork of the process that was made
/// while another thread was reading or writing the variable, both throw ContextError.
class Variable {
 public:
  /// @param initial_value  copied to every component's device. @throws InvalidArgument  synchronization none;
  /// aggregation mean of integers or booleans, or on_read with sum of booleans, which could not be read; in a
  /// replica function, another shape or dtype than replica 0's. @throws ContextError  in a scope that
  /// does not allow variables; replicas make different variables.
  explicit Variable(const Tensor& initial_value, VariableOptions options = {});
  /// @param initial_value  called once, with the first component's device current, so that random values
  /// agree everywhere.
  template <std::invocable F>
  requires std::convertible_to<std::invoke_result_t<F>, Tensor>
  explicit Variable(F&& initial_value, VariableOptions options = {})
      : state_(create([&]() -> Tensor { return initial_value(); }, std::move(options))) {}

  std::string name() const;
  bool trainable() const;
  VariableSynchronization synchronization() const;
  VariableAggregation aggregation() const;
  DType dtype() const;
  Shape shape() const;
  Strategy& strategy() const;

  /// A snapshot: later writes to the variable do not change it. Read-only, as it may share the variable's
  /// storage until the next write; write to its clone().
  Tensor value() const;
  operator Tensor() const { return value(); }

  /// Writes. A Tensor or value of another dtype or shape: InvalidArgument. A host scalar takes the variable's
  /// dtype, which must be able to hold it (Scalar::fits). A PerReplica of one component, or of one object
  /// that all replicas gave, is that value; others: InvalidArgument (aggregate first). A Mirrored value has
  /// as many components as the variable, unless one of the two has one. In a replica, by aggregation: none:
  /// InvalidArgument, but OneDeviceStrategy's are written as any; sum: the sum of the replicas' values,
  /// refused for one host scalar or Tensor given by all; mean: their mean; only_first_replica: replica 0's.
  /// A write that fails, also because memory runs out, has changed nothing.
  /// @return this variable.
  Variable& assign(const Tensor& value);
  Variable& assign(const PerReplica<Tensor>& value);
  Variable& assign(const Mirrored<Tensor>& value);
  Variable& assign(const Scalar& value);
  Variable& assign_add(const Tensor& value);
  Variable& assign_add(const PerReplica<Tensor>& value);
  Variable& assign_add(const Mirrored<Tensor>& value);
  Variable& assign_add(const Scalar& value);
  Variable& assign_sub(const Tensor& value);
  Variable& assign_sub(const PerReplica<Tensor>& value);
  Variable& assign_sub(const Mirrored<Tensor>& value);
  Variable& assign_sub(const Scalar& value);

  /// Writes of single rows: row indices[i] is combined with values[i, ...], those of one index in their
  /// order; scatter_update keeps the last. In a replica by aggregation, as assign: the replicas' rows are
  /// brought together without merging duplicates, and mean divides them by N; on_read: the replica's own
  /// component alone. Waits for the device to read the indices.
  /// @throws InvalidArgument  rows of another shape or dtype, an index out of range: nothing was written; in
  /// a replica, aggregation none. @throws Unsupported  on_read outside replica functions; min, max and
  /// update of others with sum or mean.
  /// @return this variable.
  Variable& scatter_add(const IndexedSlices& rows);
  Variable& scatter_sub(const IndexedSlices& rows);
  Variable& scatter_mul(const IndexedSlices& rows);
  Variable& scatter_div(const IndexedSlices& rows);
  Variable& scatter_min(const IndexedSlices& rows);
  Variable& scatter_max(const IndexedSlices& rows);
  Variable& scatter_update(const IndexedSlices& rows);

  /// Identity.
  friend bool operator==(const Variable& a, const Variable& b) noexcept { return a.state_ == b.state_; }

 private:
  friend struct detail::VariableState;
  static std::shared_ptr<detail::VariableState> create(detail::FunctionRef<Tensor()> initial_value,
                                                       VariableOptions options);
  explicit Variable(std::shared_ptr<detail::VariableState> state) : state_(std::move(state)) {}

  std::shared_ptr<detail::VariableState> state_;  // owners: every handle
};

namespace detail {

/// One of a variable's tensors. Its mutex guards the rest and every write in place; it is held for moments,
/// never while a function of the caller's runs. On cache lines of its own, as each replica uses its own.
struct alignas(64) VariableComponent {
  mutable Mutex mutex{"a variable"};
  Tensor tensor;
  backend::DeviceBackend* device = nullptr;  // the tensor's

  VariableComponent() = default;
  ~VariableComponent();  // leaves the tensor alone where the mutex is lost

  /// What it holds, whatever is written later.
  Tensor snapshot() const;
  /// It is to be written. @throws Unsupported  it must stay in its memory, for a graph, and somebody holds a
  /// tensor of that.
  void begin_write();
  /// Whether a capture has read or written it, so that it must stay in its memory.
  bool stays() const noexcept { return is_in_graph_; }
  /// How often begin_write was called; none where launches of graphs may write it, too.
  std::optional<std::uint64_t> num_writes() const;

 private:
  bool notes_capture() const;

  mutable bool is_in_graph_ = false;
  std::uint64_t num_writes_ = 0;
};

/// The strategy layer's view of a variable.
struct VariableState {
  /// @param components  one on each of the variable's devices, which nobody else holds.
  VariableState(const VariableOptions& options, Strategy& strategy, std::vector<Tensor> components,
                bool is_one_per_replica);

  const std::string name;
  const bool trainable;
  const VariableSynchronization synchronization;
  const VariableAggregation aggregation;
  const DType dtype;
  const Shape shape;
  const std::vector<Device> devices;          ///< Of the components.
  std::vector<VariableComponent> components;  ///< Read by `read`, written in LockedComponents.
  /// Component i is on a device of replica i's, for all replicas.
  const bool is_one_per_replica;
  /// The strategy combines what replicas write; else their writes are as any other.
  const bool is_synchronised;
  /// Each replica has a component of its own, and they differ between reads.
  const bool is_sync_on_read;
  /// Whether each replica has an equal component of its own.
  bool is_mirrored() const noexcept { return is_one_per_replica && is_synchronised && !is_sync_on_read; }

  /// @throws ContextError  it was destroyed.
  Strategy& strategy() const {
    if (life_.expired()) raise_strategy_destroyed();
    return strategy_;
  }
  bool is_of(const Strategy& strategy) const noexcept { return !life_.expired() && &strategy_ == &strategy; }

  /// In the strategy's cross-replica context, or the default one.
  static std::shared_ptr<VariableState> create(Strategy& strategy, FunctionRef<Tensor()> initial,
                                               const VariableOptions& options);

  /// A snapshot of component i: in a function given to `update` a copy of what it has in its hands.
  Tensor read(std::size_t i) const;
  /// A number that changes with each write of component i outside optimizers; none where writes are not seen:
  /// in a function given to `update`, and where launches of graphs may write it.
  std::optional<std::uint64_t> num_writes(std::size_t i) const;
  /// Whether `value` is one of the components as it is.
  bool is_component(const Tensor& value) const;
  /// All components of an on_read variable, given as `parts`, as one, outside replica functions: by the
  /// strategy's collectives, or while another thread's run uses these, without them.
  Tensor aggregate(RecycledVector<Tensor> parts) const;
  /// @throws ContextError  the variable cannot be read in the context at hand, by whatever reads it: its
  /// strategy was destroyed, or another one's scope is open.
  void check_readable() const;
  /// Read-only snapshots of all components, of one moment. @throws ContextError  the variable was moved from,
  /// or cannot be read here.
  static RecycledVector<Tensor> snapshot(const Variable& variable);

  /// In a replica function, before what the replicas do about one variable together: all meet.
  /// @throws CollectiveMismatch  they name different ones.
  void meet(const ReplicaContext& context, std::string_view operation) const;

  /// @throws ContextError  the variable was moved from.
  static const std::shared_ptr<VariableState>& of(const Variable& variable) {
    if (variable.state_ == nullptr) raise_moved_from();
    return variable.state_;
  }
  [[noreturn]] static void raise_moved_from();
  static Variable handle(std::shared_ptr<VariableState> state) { return Variable(std::move(state)); }

 private:
  [[noreturn]] void raise_strategy_destroyed() const;

  Strategy& strategy_;
  const std::weak_ptr<const Strategy> life_;
};
}  // namespace detail

}  // namespace lockstep

#pragma GCC visibility pop
