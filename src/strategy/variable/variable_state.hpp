#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/values/variable.hpp>

namespace lockstep::detail {

/// @throws InvalidArgument  `value` cannot be a component of the variable: names it, both shapes and both
/// dtypes.
void check_fits(const VariableState& state, const Tensor& value, std::string_view what);

/// What a function given to `update` has in its hands: copies of the components, which replace them together.
/// Only its thread sees them, in the context of that update.
struct VariableUpdate {
  const VariableState& state;
  RecycledVector<Tensor> values;

  /// The innermost one of the variable that this thread is in; null: none.
  static VariableUpdate* of(const VariableState& state) noexcept;
};

/// One of a variable's components.
struct ComponentRef {
  VariableState* state;
  std::size_t i;
};

/// Components, of one variable or several, that are this thread's alone while it lives. In an update of their
/// variable they are what that has in its hands.
///
/// No function of the caller's runs meanwhile, and no other one lives on this thread: they are locked in the
/// order of their addresses, so that nobody who has some of them waits for the others.
class LockedComponents {
 public:
  /// What storage for a component holds at first.
  enum class Room : std::uint8_t { empty, copied };

  explicit LockedComponents(std::span<const ComponentRef> components);
  explicit LockedComponents(VariableState& state);  ///< All of them.
  ~LockedComponents();
  LockedComponents(const LockedComponents&) = delete;
  LockedComponents& operator=(const LockedComponents&) = delete;

  std::size_t size() const noexcept { return components_.size(); }
  /// The handle of the k-th of them, to look at it or to put another in its place.
  Tensor& operator[](std::size_t k) noexcept { return *components_[k].tensor; }
  /// Whether somebody holds a snapshot of the k-th, so that it must not be written in place.
  bool is_held(std::size_t k) const noexcept {
    return components_[k].component != nullptr && components_[k].tensor->is_shared();
  }
  /// As VariableComponent's.
  void begin_write(std::size_t k);
  /// As VariableState::num_writes.
  std::optional<std::uint64_t> num_writes(std::size_t k) const;
  /// What the k-th holds, whatever is written later.
  Tensor snapshot(std::size_t k) const;
  /// Begins the write of the k-th: storage for it if it is held, else an empty Tensor.
  Tensor room(std::size_t k, Room room);
  /// Puts those of `values` that are not empty, and that nobody else holds, in the components' places, or
  /// what they hold, where a component must stay. Takes no memory. @pre begin_write, or room.
  void replace(std::span<Tensor> values);
  /// Makes room for writes of all: after it they take no memory. All or none.
  void make_room(Room room);

 private:
  struct Locked {
    Tensor* tensor;
    VariableComponent* component;  // null: it is in an update's hands
  };
  RecycledVector<Locked> components_;
  RecycledVector<Mutex*> mutexes_;
};

/// All components of the variable.
RecycledVector<ComponentRef> all_components(VariableState& state);

/// Which component of the variable a function given to `update` or `update_non_slot` concerns; none: outside
/// these, and for a variable of several components in the update of one that has only one.
std::optional<std::size_t> updated_component(const VariableState& state) noexcept;

/// Calls fn where the variable is written outside its replicas: in its strategy's cross-replica context, and
/// one that was made outside every scope also in any other's. @throws ContextError  elsewhere: names `what`.
void in_writing_context(const VariableState& state, std::string_view what, FunctionRef<void()> fn);

/// Makes the state of a variable in the context at hand; in a replica function together with the other
/// replicas, which get the same one.
/// @param initial  called once. @param given  what it returns, if known before.
std::shared_ptr<VariableState> create_variable(FunctionRef<Tensor()> initial, VariableOptions options,
                                               const Tensor* given);

/// What a read of the variable gives in the context at hand.
Tensor read_variable(const Variable& variable);
/// Where all components are equal, which one is read: that on the current device, else component 0.
enum class ReadFrom : std::uint8_t { current_device, component_0 };
/// The same of several variables of one strategy, of one moment: between the writes of any of them.
RecycledVector<Tensor> read_variables(std::span<const Variable> variables,
                                      ReadFrom from = ReadFrom::current_device);

}  // namespace lockstep::detail
