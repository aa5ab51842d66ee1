#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/tensor.hpp>
#include <lockstep/values/variable.hpp>

namespace lockstep::detail {

class VariableComponent;

/// One of a variable's components.
struct ComponentRef {
  VariableState* state;
  std::size_t i;
};

/// All components of the variable.
RecycledVector<ComponentRef> all_components(VariableState& state);

/// Calls `change`, which writes the components' elements. Where it throws, some may have changed, and others
/// not: their strategy then refuses what follows, unless the writes were captured. @param what  "assign_add".
void change_together(std::string_view what, std::span<const ComponentRef> components,
                     FunctionRef<void()> change);

/// The copies of a variable's components that a function given to `update` works on; they become the
/// components together. Only its thread sees them, in the context of that update.
struct VariableUpdate {
  const VariableState& state;
  RecycledVector<Tensor> values;

  /// The innermost one of the variable that this thread is in; null: none.
  static VariableUpdate* of(const VariableState& state) noexcept;
};

/// Which component of the variable a function given to `update` or `update_non_slot` concerns; none: outside
/// these, and for a variable of several components in the update of one that has only one.
std::optional<std::size_t> updated_component(const VariableState& state) noexcept;

/// Components, of one variable or several, that are this thread's alone while it lives. In an update of their
/// variable they are the update's copies.
///
/// No function of the caller's runs meanwhile, and no other one lives on this thread: they are locked in the
/// order of their addresses, so that no thread that holds some of them waits for the others.
class LockedComponents {
 public:
  /// The first values of new storage for a component.
  enum class Storage : std::uint8_t { uninitialised, copied };

  explicit LockedComponents(std::span<const ComponentRef> components);
  explicit LockedComponents(VariableState& state);  ///< All of them.
  ~LockedComponents();
  LockedComponents(const LockedComponents&) = delete;
  LockedComponents& operator=(const LockedComponents&) = delete;

  std::size_t size() const noexcept { return components_.size(); }
  /// The handle of the k-th, for reading it or replacing it.
  Tensor& operator[](std::size_t k) noexcept { return *components_[k].tensor; }
  /// Whether a snapshot of the k-th is held, so that it must not be written in place.
  bool is_shared(std::size_t k) const noexcept {
    return components_[k].component != nullptr && components_[k].tensor->is_shared();
  }
  /// The same as VariableComponent::begin_write.
  void begin_write(std::size_t k);
  /// The same as VariableComponent::begin_counted_write.
  void begin_counted_write(std::size_t k);
  /// The same as VariableState::num_writes.
  std::optional<std::uint64_t> num_writes(std::size_t k) const;
  /// The present value of the k-th, whatever is written later.
  Tensor snapshot(std::size_t k) const;
  /// Begins the write of the k-th: new storage for it if it is shared, else an empty Tensor.
  Tensor unshared(std::size_t k, Storage storage);
  /// Puts those of `values` that are not empty, and that nobody else holds, in the components' places, or
  /// their elements, where a component must stay. Takes no memory. @pre begin_write, or unshared.
  void replace(std::span<Tensor> values);
  /// Gives all that are shared new storage: writes of all take no memory afterwards. All or none.
  void unshare(Storage storage);

 private:
  struct Locked {
    Tensor* tensor;
    VariableComponent* component;  // null: the tensor is an update's copy
  };
  RecycledVector<Locked> components_;
  RecycledVector<Mutex*> mutexes_;
};

}  // namespace lockstep::detail
