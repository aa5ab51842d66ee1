#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace detail {
struct ValueAccess;  // lets the library set what users cannot

/// The conversion of a distributed value of `size` components to one component. @throws InvalidArgument
[[noreturn]] void raise_not_one_component(int size);
[[noreturn]] void raise_no_components(std::string_view type);
/// @throws ContextError  always: a value of this type was used after it was moved from.
[[noreturn]] void raise_moved_from(std::string_view type);
void check_component_index(int index, int size);
}  // namespace detail

/// The common base of PerReplica and Mirrored: components in order, at least one. An immutable value;
/// components of Tensor type are handles. A moved-from one is empty; using it throws ContextError. Making one
/// takes nothing from the heap in steady state, but for a std::vector that it is made of.
template <class T>
class DistributedValues {
 public:
  using value_type = T;

  [[nodiscard]] int size() const { return static_cast<int>(components().size()); }
  /// @throws InvalidArgument  i is outside [0, size).
  decltype(auto) operator[](int i) const& {
    detail::check_component_index(i, size());
    return components_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] T operator[](int i) const&& { return (*this)[i]; }
  [[nodiscard]] auto begin() const { return components().begin(); }
  [[nodiscard]] auto end() const { return components().end(); }

 protected:
  DistributedValues(detail::RecycledVector<T> components, std::string_view type, bool same_object = false)
      : components_(std::move(components)), type_(type), same_object_(same_object) {
    if (components_.empty()) detail::raise_no_components(type_);
  }
  static detail::RecycledVector<T> moved(std::vector<T>& components) {
    return {std::make_move_iterator(components.begin()), std::make_move_iterator(components.end())};
  }
  const detail::RecycledVector<T>& components() const {
    if (components_.empty()) detail::raise_moved_from(type_);
    return components_;
  }
  bool same_object() const { return same_object_; }

 private:
  detail::RecycledVector<T> components_;
  std::string_view type_;
  bool same_object_;
};

/// One component for each local replica, in replica order; components may differ. Made by datasets, `run` and
/// `distribute_values_from_function`.
template <class T>
class PerReplica : public DistributedValues<T> {
 public:
  /// @throws InvalidArgument  no components.
  explicit PerReplica(std::vector<T> components)
      : DistributedValues<T>(DistributedValues<T>::moved(components), "PerReplica") {}

  /// Whether every replica gave the same object (Tensors only): reductions then treat it as that plain value.
  [[nodiscard]] bool is_same_object() const { return this->size() > 0 && this->same_object(); }

  /// The component, when there is one.
  /// @throws InvalidArgument  there are several: take a `PerReplica<T>` parameter, reduce the value, or use
  /// local_results.
  operator T() const {
    if (this->size() != 1) detail::raise_not_one_component(this->size());
    return this->components()[0];
  }

 private:
  friend struct detail::ValueAccess;
  PerReplica(detail::RecycledVector<T>&& components, bool same_object)
      : DistributedValues<T>(std::move(components), "PerReplica", same_object) {}
};

/// Equal components, one for each device of a group; the maker vouches for it. Made by `reduce_to`,
/// `broadcast_to` and `update`.
template <class T>
class Mirrored : public DistributedValues<T> {
 public:
  /// @throws InvalidArgument  no components.
  explicit Mirrored(std::vector<T> components)
      : DistributedValues<T>(DistributedValues<T>::moved(components), "Mirrored") {}
  /// A value of components that the replicas made equal.
  explicit Mirrored(const PerReplica<T>& value)
      : DistributedValues<T>(detail::RecycledVector<T>(value.begin(), value.end()), "Mirrored") {}

  /// Whether all components are one object.
  [[nodiscard]] bool is_same_object() const { return this->size() == 1 || this->same_object(); }

  /// The component on the current device, else component 0.
  operator T() const;

 private:
  friend struct detail::ValueAccess;
  Mirrored(detail::RecycledVector<T>&& components, bool same_object)
      : DistributedValues<T>(std::move(components), "Mirrored", same_object) {}
};

namespace detail {

struct ValueAccess {
  template <class T>
  static PerReplica<T> per_replica(RecycledVector<T> components, bool same_object = false) {
    return {std::move(components), same_object};
  }
  template <class T>
  static Mirrored<T> mirrored(RecycledVector<T> components, bool same_object = false) {
    return {std::move(components), same_object};
  }
};

/// Position of the component on the current device, else 0.
template <class Components>
std::size_t current_component(const Components& components) {
  if constexpr (requires { components[0].device(); }) {
    const Device& here = current_device();
    for (std::size_t i = 0; i < components.size(); ++i)
      if (components[i].device() == here) return i;
  }
  return 0;
}

template <class T>
struct is_per_replica : std::false_type {};
template <class T>
struct is_per_replica<PerReplica<T>> : std::true_type {};
template <class T>
struct is_mirrored : std::false_type {};
template <class T>
struct is_mirrored<Mirrored<T>> : std::true_type {};
template <class T>
concept DistributedLeaf = is_per_replica<T>::value || is_mirrored<T>::value;

}  // namespace detail

template <class T>
Mirrored<T>::operator T() const {
  return this->components()[detail::current_component(this->components())];
}

}  // namespace lockstep

#pragma GCC visibility pop
