#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/buffer.hpp>
#include <lockstep/device.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/scalar.hpp>
#include <lockstep/shape.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor_view.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// A typed, shaped array on one device.
///
/// A cheap handle: copies share the storage, which lives as long as any copy; `clone()` copies the data.
/// Memory is freed in stream order. Every operation is enqueued on current_stream(device()) and returns
/// without waiting, except `item` and `to_vector`. Threads may use a handle as they may use a pointer:
/// several may read at once, a writer must be alone. A default-constructed or moved-from Tensor is empty;
/// using it throws ContextError.
class Tensor {
 public:
  Tensor() = default;

  /// Factories. The default device is current_device(). @throws InvalidArgument  the shape is invalid, or the
  /// dtype cannot hold the value (Scalar::fits). @throws OutOfMemory, NotFound
  [[nodiscard]] static Tensor empty(const Shape& shape, DType dtype = DType::f32,
                                    const std::optional<Device>& device = {});
  [[nodiscard]] static Tensor zeros(const Shape& shape, DType dtype = DType::f32,
                                    const std::optional<Device>& device = {});
  [[nodiscard]] static Tensor ones(const Shape& shape, DType dtype = DType::f32,
                                   const std::optional<Device>& device = {});
  template <Element T>
  [[nodiscard]] static Tensor full(const Shape& shape, T value, DType dtype = dtype_of<T>,
                                   const std::optional<Device>& device = {}) {
    return full_with(shape, Scalar(value), dtype, device);
  }
  /// A vector of start, start + step, … that stays below stop (above it, if step is negative).
  /// @throws InvalidArgument  step is 0, or an argument is not finite; the dtype is boolean; a number does
  /// not fit the dtype.
  template <Element T>
  [[nodiscard]] static Tensor arange(T start, T stop, T step = T(1), DType dtype = dtype_of<T>,
                                     const std::optional<Device>& device = {});
  template <Element T>
  [[nodiscard]] static Tensor arange(T stop, DType dtype = dtype_of<T>,
                                     const std::optional<Device>& device = {}) {
    return arange(T(0), stop, T(1), dtype, device);
  }
  /// Copies host values; page-locked memory is read in stream order. @throws InvalidArgument  the number of
  /// values is not shape.size().
  template <Element T>
  [[nodiscard]] static Tensor from(std::span<const T> values, const Shape& shape,
                                   const std::optional<Device>& device = {}) {
    return from_bytes(values.data(), values.size(), shape, dtype_of<T>, device);
  }
  template <Element T>
  [[nodiscard]] static Tensor from(std::initializer_list<T> values, const Shape& shape,
                                   const std::optional<Device>& device = {}) {
    return from(std::span<const T>(values.begin(), values.size()), shape, device);
  }
  template <Element T>
  requires(!std::same_as<T, bool>) static Tensor
      from(const std::vector<T>& values, const Shape& shape, const std::optional<Device>& device = {}) {
    return from(std::span<const T>(values), shape, device);
  }
  /// A tensor of rank 0.
  template <Element T>
  [[nodiscard]] static Tensor scalar(T value, const std::optional<Device>& device = {}) {
    return full(Shape(), value, dtype_of<T>, device);
  }
  /// Borrows memory that the caller owns and keeps alive until work on it is done. Strides are in elements;
  /// an empty list means contiguous. Writing throws InvalidArgument if `data` is a const pointer, or if
  /// elements may share an address (stride 0). `to` and `copy_` read page-locked memory in stream order,
  /// after they have returned.
  /// @throws InvalidArgument  data is null though there are elements; the number of strides is not the rank;
  /// a stride is negative.
  [[nodiscard]] static Tensor view(void* data, const Shape& shape, DType dtype, const Device& device,
                                   const std::vector<std::int64_t>& strides = {});
  [[nodiscard]] static Tensor view(const void* data, const Shape& shape, DType dtype, const Device& device,
                                   const std::vector<std::int64_t>& strides = {});

  /// For the library: a tensor over memory that `storage` owns or keeps alive; the last handle destroys
  /// `storage`.
  /// @pre `view` lies in that memory.
  [[nodiscard]] static Tensor adopt(std::shared_ptr<Buffer> storage, TensorView view) {
    return {std::move(storage), std::move(view)};
  }

  [[nodiscard]] bool defined() const noexcept { return storage_ != nullptr; }
  /// Here and below, temporaries return copies instead of references, so that nothing dangles.
  [[nodiscard]] const Shape& shape() const& { return checked().view_.shape; }
  [[nodiscard]] Shape shape() const&& { return checked().view_.shape; }
  [[nodiscard]] DType dtype() const { return checked().view_.dtype; }
  [[nodiscard]] const Device& device() const& { return checked().view_.device; }
  [[nodiscard]] Device device() const&& { return checked().view_.device; }
  [[nodiscard]] int rank() const { return shape().rank(); }
  [[nodiscard]] std::int64_t size() const { return shape().size(); }
  [[nodiscard]] std::int64_t nbytes() const { return checked().view_.nbytes(); }
  [[nodiscard]] bool is_contiguous() const { return checked().view_.is_contiguous(); }
  [[nodiscard]] bool is_read_only() const { return checked().view_.read_only; }
  /// The view of the bytes, for backends and engines.
  [[nodiscard]] const TensorView& view() const& { return checked().view_; }
  [[nodiscard]] TensorView view() const&& { return checked().view_; }
  /// The first element, which the host may read and write. @throws InvalidArgument  the tensor is read-only
  /// or not in host memory.
  [[nodiscard]] void* data() const;
  template <class T>
  [[nodiscard]] T* data() const {
    static_assert(sizeof(T) == 0,
                  "data: a Tensor's dtype is not part of its type: write static_cast<T*>(tensor.data()), or "
                  "to_vector<T>() and item<T>(), which check the dtype and wait for the device");
  }

  /// The tensor on `device`; the same handle if it is there already. A copy to another device starts after
  /// the work on this tensor's stream, and later work of that stream waits for it; a copy to the host blocks.
  /// @throws NotFound
  [[nodiscard]] Tensor to(const Device& device) const;
  /// A contiguous copy on the same device.
  [[nodiscard]] Tensor clone() const;
  /// The same elements as a tensor that cannot be written through.
  [[nodiscard]] Tensor read_only() const;
  /// The stream on which the memory is freed, or goes back to the library that lent it (dlpack.hpp); none if
  /// its owner frees it, as that of a `view`.
  [[nodiscard]] std::optional<StreamRef> stream() const;
  /// Calls Buffer::set_stream on the storage, if it has a stream.
  void set_stream(StreamRef stream);
  /// The same handle if contiguous, else a contiguous copy.
  [[nodiscard]] Tensor contiguous() const;
  /// A view of rows [begin, end) of axis 0. @throws InvalidArgument  rank 0, or not 0 <= begin <= end <=
  /// rows.
  [[nodiscard]] Tensor slice(std::int64_t begin, std::int64_t end) const;
  /// A view of indices [begin, end) of any axis; strided unless axis is 0.
  [[nodiscard]] Tensor narrow(int axis, std::int64_t begin, std::int64_t end) const;
  /// The same elements in another shape; a view if contiguous, else a copy. @throws InvalidArgument  the
  /// sizes differ.
  [[nodiscard]] Tensor reshape(const Shape& shape) const;
  /// Elements converted by the rules of kernel_backend.hpp; the same handle if the dtype is the same.
  [[nodiscard]] Tensor cast(DType dtype) const;

  /// Waits for the device, then copies to the host. @throws InvalidArgument  T is not this dtype's host type
  /// (names both); for item: the tensor does not have exactly one element.
  template <Element T>
  [[nodiscard]] std::vector<T> to_vector() const;
  template <Element T>
  [[nodiscard]] T item() const {
    T value;
    read_item(&value, dtype_of<T>);
    return value;
  }

  /// In-place, element-wise arithmetic. `other` has the same shape and dtype, or rank 0. Strided views are
  /// written through. `other` may overlap this tensor in any way; its old values are used.
  /// @throws InvalidArgument  shapes, dtypes or devices differ, a host scalar does not fit the dtype, or this
  /// tensor is read-only; nothing was written.
  Tensor& add_(const Tensor& other) &;
  Tensor& sub_(const Tensor& other) &;
  Tensor& mul_(const Tensor& other) &;
  Tensor& div_(const Tensor& other) &;
  Tensor& add_(const Scalar& value) &;
  Tensor& sub_(const Scalar& value) &;
  Tensor& mul_(const Scalar& value) &;
  Tensor& div_(const Scalar& value) &;
  Tensor& copy_(const Tensor& other) &;  ///< `other` may be on any device.
  Tensor& fill_(const Scalar& value) &;
  Tensor add_(const Tensor& other) && { return add_(other); }
  Tensor sub_(const Tensor& other) && { return sub_(other); }
  Tensor mul_(const Tensor& other) && { return mul_(other); }
  Tensor div_(const Tensor& other) && { return div_(other); }
  Tensor add_(const Scalar& value) && { return add_(value); }
  Tensor sub_(const Scalar& value) && { return sub_(value); }
  Tensor mul_(const Scalar& value) && { return mul_(value); }
  Tensor div_(const Scalar& value) && { return div_(value); }
  Tensor copy_(const Tensor& other) && { return copy_(other); }
  Tensor fill_(const Scalar& value) && { return fill_(value); }

  /// Whether another handle shares the storage. If not, all work that other handles enqueued, also on other
  /// threads, is visible to this thread.
  [[nodiscard]] bool is_shared() const noexcept;
  /// Whether the memory is not the library's, as that of a `view`.
  [[nodiscard]] bool is_borrowed() const { return size() > 0 && storage_->data() == nullptr; }
  /// Whether both handles have the same storage, offset, shape and strides.
  [[nodiscard]] bool is_same_object(const Tensor& other) const noexcept;

 private:
  Tensor(std::shared_ptr<Buffer> storage, TensorView view)
      : storage_(std::move(storage)), view_(std::move(view)) {}
  static Tensor arange_with(const Scalar& start, const Scalar& stop, const Scalar& step, DType given,
                            DType dtype, const std::optional<Device>& device);
  static Tensor full_with(const Shape& shape, const Scalar& value, DType dtype,
                          const std::optional<Device>& device);
  static Tensor from_bytes(const void* values, std::size_t num_values, const Shape& shape, DType dtype,
                           const std::optional<Device>& device);
  const Tensor& checked() const;
  void read_item(void* value, DType dtype) const;
  void read_all(void* values, DType dtype) const;

  std::shared_ptr<Buffer> storage_;
  TensorView view_;
};

/// @name Element-wise arithmetic
/// The operands have the same shape, or one has rank 0; a host scalar takes the tensor's dtype. The operators
/// are not templates, so that variables and one-component values convert. Integer division truncates;
/// dividing by zero gives 0.
/// @throws InvalidArgument  shapes, dtypes or devices differ: names both; a host scalar does not fit the
/// dtype.
/// @{
[[nodiscard]] Tensor operator+(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator-(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator*(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator/(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator+(const Tensor& a, const Scalar& b);
[[nodiscard]] Tensor operator-(const Tensor& a, const Scalar& b);
[[nodiscard]] Tensor operator*(const Tensor& a, const Scalar& b);
[[nodiscard]] Tensor operator/(const Tensor& a, const Scalar& b);
[[nodiscard]] Tensor operator+(const Scalar& a, const Tensor& b);
[[nodiscard]] Tensor operator-(const Scalar& a, const Tensor& b);
[[nodiscard]] Tensor operator*(const Scalar& a, const Tensor& b);
[[nodiscard]] Tensor operator/(const Scalar& a, const Tensor& b);
[[nodiscard]] Tensor operator-(const Tensor& a);
/// @}

/// "[128, 64] float32 on GPU:0", for messages.
[[nodiscard]] std::string describe(const Tensor& tensor);

template <Element T>
Tensor Tensor::arange(T start, T stop, T step, DType dtype, const std::optional<Device>& device) {
  return arange_with(start, stop, step, dtype_of<T>, dtype, device);
}

template <Element T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> values(static_cast<std::size_t>(size()));
  if constexpr (std::same_as<T, bool>) {
    auto bytes = std::make_unique<bool[]>(values.size());
    read_all(bytes.get(), DType::boolean);
    values.assign(bytes.get(), bytes.get() + values.size());
  } else {
    read_all(values.data(), dtype_of<T>);
  }
  return values;
}

}  // namespace lockstep

#pragma GCC visibility pop
