#pragma once

#include <concepts>
#include <vector>

#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/variable.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Anything that can be reduced over replicas, type erased. Implicit from the types below. Whether a
/// reduction accepts it depends on the type alone: a host scalar that `run` returned (PerReplica) is one
/// contribution per replica, a plain host scalar is a plain value.
class ReduceValue {
 public:
  enum class Kind : std::uint8_t { per_replica, mirrored, plain };

  ReduceValue(const PerReplica<Tensor>& value);
  ReduceValue(const Mirrored<Tensor>& value);
  ReduceValue(const Tensor& value);
  /// @throws ContextError  the variable cannot be read here.
  ReduceValue(const Variable& value);
  ReduceValue(const PerReplica<IndexedSlices>& value);
  ReduceValue(const Mirrored<IndexedSlices>& value);
  ReduceValue(const IndexedSlices& value);
  template <Element T>
  ReduceValue(const PerReplica<T>& value) : kind_(Kind::per_replica) {
    for (T component : value) tensors_.push_back(Tensor::scalar(component));
  }
  template <Element T>
  ReduceValue(const Mirrored<T>& value) : kind_(Kind::mirrored) {
    for (T component : value) tensors_.push_back(Tensor::scalar(component));
  }
  template <Element T>
  ReduceValue(T value) : kind_(Kind::plain), tensors_{Tensor::scalar(value)} {}

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is_sparse() const noexcept { return !slices_.empty(); }
  /// Components; one for a plain value (or several handles of one object). None of a sparse value.
  [[nodiscard]] const detail::RecycledVector<Tensor>& tensors() const& { return checked().tensors_; }
  [[nodiscard]] detail::RecycledVector<Tensor> tensors() const&&;
  [[nodiscard]] const detail::RecycledVector<IndexedSlices>& slices() const& { return checked().slices_; }
  [[nodiscard]] detail::RecycledVector<IndexedSlices> slices() const&&;
  [[nodiscard]] int num_components() const {
    return static_cast<int>(is_sparse() ? slices().size() : tensors().size());
  }

 private:
  const ReduceValue& checked() const {
    if (tensors_.empty() && slices_.empty()) detail::raise_moved_from("ReduceValue");
    return *this;
  }

  Kind kind_;
  detail::RecycledVector<Tensor> tensors_;
  detail::RecycledVector<IndexedSlices> slices_;
};

/// The devices of a reduction's or broadcast's result: those of a variable, a tensor or a
/// distributed value, or one device.
class Destination {
 public:
  Destination(const Variable& variable);
  Destination(const Device& device);
  /// @throws InvalidArgument  no device's name, or empty.
  Destination(const char* device);
  Destination(const Tensor& tensor);
  template <class T>
  requires std::same_as<T, Tensor> Destination(const PerReplica<T>& value)
      : Destination(value.begin(), value.end()) {}
  template <class T>
  requires std::same_as<T, Tensor> Destination(const Mirrored<T>& value)
      : Destination(value.begin(), value.end()) {}
  /// @throws InvalidArgument  always: a list of devices is no destination; names what to pass.
  Destination(const std::vector<Device>& devices);

  /// One or more.
  [[nodiscard]] const detail::RecycledVector<Device>& devices() const& {
    if (devices_.empty()) detail::raise_moved_from("Destination");
    return devices_;
  }
  [[nodiscard]] detail::RecycledVector<Device> devices() const&&;

 private:
  template <class Iterator>
  Destination(Iterator begin, Iterator end) {
    for (; begin != end; ++begin) devices_.push_back(begin->device());
  }
  detail::RecycledVector<Device> devices_;
};

}  // namespace lockstep

#pragma GCC visibility pop
