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
#include <lockstep/detail/recycling_allocator.hpp>
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
class VariableAccess;
class VariableState;
}  // namespace detail

/// The time at which the components of a variable are combined.
enum class VariableSynchronization : std::uint8_t { automatic, none, on_write, on_read };
/// The operation that combines replicas' writes (on_write), or components (on_read). A mean is a sum that is
/// divided, and rounds as such: of three equal numbers it need not be that number. only_first_replica is
/// exact.
enum class VariableAggregation : std::uint8_t { none, sum, mean, only_first_replica };

std::string_view name(VariableSynchronization synchronization);
std::string_view name(VariableAggregation aggregation);
std::ostream& operator<<(std::ostream& out, VariableSynchronization synchronization);
std::ostream& operator<<(std::ostream& out, VariableAggregation aggregation);

/// The name of a variable, and how its components are kept and combined.
struct VariableOptions {
  std::string name{};               ///< Component i > 0 is called NAME/replica_i. Empty: "Variable".
  std::optional<bool> trainable{};  ///< Default: true, false for on_read.
  VariableSynchronization synchronization =
      VariableSynchronization::automatic;  ///< automatic is on_write; none is refused.
  VariableAggregation aggregation = VariableAggregation::none;
};

/// State that a strategy keeps once on each of its parameter devices, equal at birth.
///
/// A cheap handle: copies are the same variable. It belongs to the strategy in whose scope it was made;
/// outside every scope to the default strategy, with one component on the current device. Once that strategy
/// is destroyed, and in another strategy's scope, all reads and writes throw ContextError. A read gives the
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
/// A variable that a capture of a stream, as for a CUDA graph, has read or written stays in its memory, where
/// the graph's launches find it: reads outside captures copy it, and a write while a tensor of a
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
  friend class detail::VariableAccess;
  static std::shared_ptr<detail::VariableState> create(detail::FunctionRef<Tensor()> initial_value,
                                                       VariableOptions options);
  explicit Variable(std::shared_ptr<detail::VariableState> state) : state_(std::move(state)) {}

  std::shared_ptr<detail::VariableState> state_;  // owners: every handle
};

namespace detail {

/// The library's door to a variable's state. Each function throws ContextError where the variable was moved
/// from.
class VariableAccess {
 public:
  static const std::shared_ptr<VariableState>& state(const Variable& variable) {
    if (variable.state_ == nullptr) raise_moved_from();
    return variable.state_;
  }
  static Variable handle(std::shared_ptr<VariableState> state) { return Variable(std::move(state)); }

  /// One per component.
  static const std::vector<Device>& devices(const Variable& variable);
  /// Whether each replica has a component of its own, and they differ between reads.
  static bool is_sync_on_read(const Variable& variable);
  /// Whether each replica has a component of its own, and they are equal.
  static bool is_mirrored(const Variable& variable);
  /// Read-only snapshots of all components, of one moment.
  /// @throws ContextError  the variable cannot be read here.
  static RecycledVector<Tensor> snapshot(const Variable& variable);

 private:
  [[noreturn]] static void raise_moved_from();
};

}  // namespace detail

}  // namespace lockstep

#pragma GCC visibility pop
