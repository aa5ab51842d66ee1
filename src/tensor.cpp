#include <cmath>
#include <cstddef>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "detail/expects.hpp"
#include "detail/float_environment.hpp"
#include "tensor_checks.hpp"

namespace lockstep {

namespace {

/// The number of elements of start, start + step, … before stop. Wrapping gives the right result even if stop
/// - start overflows I.
template <class I>
std::uint64_t count_steps(I start, I stop, I step) {
  const auto distance = [](I low, I high) {
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  };
  if (step > 0) return start < stop ? (distance(start, stop) - 1) / static_cast<std::uint64_t>(step) + 1 : 0;
  const std::uint64_t stride = 0 - static_cast<std::uint64_t>(step);
  return stop < start ? (distance(stop, start) - 1) / stride + 1 : 0;
}

std::uint64_t count_steps(double start, double stop, double step) {
  const double count = std::ceil((stop - start) / step);
  LOCKSTEP_EXPECTS(std::isfinite(start) && std::isfinite(step) && count < 0x1p62, InvalidArgument,
                   "Tensor::arange(", start, ", ", stop, ", ", step,
                   "): the arguments make no finite range. Pass finite numbers.");
  return count > 0 ? static_cast<std::uint64_t>(count) : 0;
}

/// @tparam A  the type in which elements are counted.
template <class A>
Tensor make_range(const Scalar& given_start, const Scalar& given_stop, const Scalar& given_step, DType dtype,
                  const std::optional<Device>& device) {
  const detail::FloatEnvironment environment;
  const A start = given_start.as<A>(), stop = given_stop.as<A>(), step = given_step.as<A>();
  LOCKSTEP_EXPECTS(step != 0, InvalidArgument, "Tensor::arange(", start, ", ", stop,
                   ", 0): the step is 0. Pass another.");
  const std::uint64_t count = count_steps(start, stop, step);
  LOCKSTEP_EXPECTS(count < std::uint64_t{1} << 62, InvalidArgument, "Tensor::arange(", start, ", ", stop,
                   ", ", step, "): ", count, " elements are too many. Pass a larger step.");
  return dispatch(dtype, [&]<class T>() {
    // An array, because the booleans of a vector have no addresses.
    const auto values = std::make_unique<T[]>(static_cast<std::size_t>(count));
    using Steps = std::conditional_t<std::floating_point<A>, double,
                                     std::uint64_t>;  // unsigned: it wraps, as the values do
    for (std::uint64_t i = 0; i < count; ++i) {
      const Steps value = static_cast<Steps>(start) + static_cast<Steps>(i) * static_cast<Steps>(step);
      const Scalar number = static_cast<A>(value);
      LOCKSTEP_EXPECTS(number.fits(dtype), InvalidArgument, "Tensor::arange(", start, ", ", stop, ", ", step,
                       "): ", number, " does not fit ", dtype,
                       ". Pass a range that it can hold, or another dtype.");
      values[i] = number.as<T>();
    }
    return Tensor::from(std::span<const T>(values.get(), static_cast<std::size_t>(count)), Shape(count),
                        device);
  });
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, const std::optional<Device>& device) {
  const Device& place = device ? *device : current_device();
  // Shape has checked that the product fits.
  const auto num_bytes = static_cast<std::size_t>(shape.size()) * size_of(dtype);
  auto storage =
      std::allocate_shared<Buffer>(detail::RecyclingAllocator<Buffer>(), num_bytes, current_stream(place));
  const TensorView view(storage->data(), shape, dtype, place);
  return {std::move(storage), view};
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, const std::optional<Device>& device) {
  return full_with(shape, 0, dtype, device);
}

Tensor Tensor::ones(const Shape& shape, DType dtype, const std::optional<Device>& device) {
  return full_with(shape, 1, dtype, device);
}

Tensor Tensor::full_with(const Shape& shape, const Scalar& value, DType dtype,
                         const std::optional<Device>& device) {
  Tensor result = empty(shape, dtype, device);
  detail::require_holds("Tensor::full", result, value);
  result.fill_(value);
  return result;
}

Tensor Tensor::arange_with(const Scalar& start, const Scalar& stop, const Scalar& step, DType given,
                           DType dtype, const std::optional<Device>& device) {
  LOCKSTEP_EXPECTS(!is_boolean(given) && !is_boolean(dtype), InvalidArgument,
                   "Tensor::arange: booleans make no range. Make one of integers and cast it.");
  if (is_floating(given)) return make_range<double>(start, stop, step, dtype, device);
  if (is_signed_integer(given)) return make_range<std::int64_t>(start, stop, step, dtype, device);
  return make_range<std::uint64_t>(start, stop, step, dtype, device);
}

Tensor Tensor::from_bytes(const void* values, std::size_t num_values, const Shape& shape, DType dtype,
                          const std::optional<Device>& device) {
  LOCKSTEP_EXPECTS(static_cast<std::int64_t>(num_values) == shape.size(), InvalidArgument,
                   "Tensor::from: ", num_values, " values do not fill ", shape, " ", dtype, ", which has ",
                   shape.size(), " elements. Pass one value for each.");
  Tensor result = empty(shape, dtype, device);
  if (num_values > 0) {
    const StreamRef stream = current_stream(result.device());
    stream.device_backend().copy_from_host(result.view_.data, values,
                                           static_cast<std::size_t>(result.nbytes()), stream.handle());
  }
  return result;
}

Tensor Tensor::view(void* data, const Shape& shape, DType dtype, const Device& device,
                    const std::vector<std::int64_t>& strides) {
  LOCKSTEP_EXPECTS(data != nullptr || shape.empty(), InvalidArgument, "Tensor::view: a null pointer for ",
                   shape, " ", dtype, " on ", device, ", which has ", shape.size(),
                   " elements. Pass the address of the first.");
  LOCKSTEP_EXPECTS(strides.empty() || static_cast<int>(strides.size()) == shape.rank(), InvalidArgument,
                   "Tensor::view: ", strides.size(), " strides for ", shape, ", which has rank ",
                   shape.rank(), ". Pass one, in elements, for each axis.");
  static_cast<void>(current_stream(device));  // throws if there is no such device
  TensorView view(data, shape, dtype, device);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    LOCKSTEP_EXPECTS(strides[axis] >= 0, InvalidArgument, "Tensor::view: stride ", strides[axis], " of axis ",
                     axis, " of ", shape, " is negative. Pass 0 or more.");
    view.strides[axis] = strides[axis];
  }
  return {std::make_shared<Buffer>(), view};
}

Tensor Tensor::view(const void* data, const Shape& shape, DType dtype, const Device& device,
                    const std::vector<std::int64_t>& strides) {
  Tensor result = view(const_cast<void*>(data), shape, dtype, device, strides);
  result.view_.read_only = true;
  return result;
}

const Tensor& Tensor::checked() const {
  LOCKSTEP_EXPECTS(
      defined(), ContextError,
      "Tensor: used while empty: default-constructed or moved from. Assign a tensor to it first.");
  return *this;
}

void* Tensor::data() const {
  LOCKSTEP_EXPECTS(!is_read_only(), InvalidArgument, "Tensor::data: ", describe(*this),
                   " is a view of constant memory. Read it through view().data.");
  LOCKSTEP_EXPECTS(device().kind() == DeviceKind::cpu, InvalidArgument,
                   "Tensor::data: the host cannot address ", describe(*this),
                   ". Copy it with to(\"CPU:0\"), or pass view().data to the device.");
  return view_.data;
}

namespace {

void check_range(std::string_view what, const Tensor& t, int axis, std::int64_t begin, std::int64_t end) {
  const std::int64_t extent = t.shape()[axis];
  LOCKSTEP_EXPECTS(0 <= begin && begin <= end && end <= extent, InvalidArgument, what, ": indices [", begin,
                   ", ", end, ") of axis ", axis, " of ", describe(t),
                   " are not there. Pass 0 <= begin <= end <= ", extent, ".");
}

}  // namespace

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  LOCKSTEP_EXPECTS(rank() > 0, InvalidArgument, "Tensor::slice(", begin, ", ", end, "): ", describe(*this),
                   " has rank 0 and no rows. Reshape it to rank 1 first.");
  check_range("Tensor::slice", *this, 0, begin, end);
  return narrow(0, begin, end);
}

Tensor Tensor::narrow(int axis, std::int64_t begin, std::int64_t end) const {
  axis = shape().normalize_axis(axis, "Tensor::narrow");
  check_range("Tensor::narrow", *this, axis, begin, end);
  Tensor result = *this;
  result.view_.shape = shape().with(axis, end - begin);
  if (result.size() > 0) {
    result.view_.data =
        static_cast<std::byte*>(view_.data) + begin * view_.strides[static_cast<std::size_t>(axis)] *
                                                  static_cast<std::int64_t>(size_of(view_.dtype));
  }
  return result;
}

Tensor Tensor::reshape(const Shape& shape) const {
  LOCKSTEP_EXPECTS(shape.size() == size(), InvalidArgument, "Tensor::reshape: ", describe(*this), " has ",
                   size(), " elements, ", shape, " has ", shape.size(), ". Pass a shape of equal size.");
  Tensor result = contiguous();
  result.view_.shape = shape;
  result.view_.strides = shape.contiguous_strides();
  return result;
}

bool Tensor::is_shared() const noexcept {
  if (storage_.use_count() > 1) return true;
  // The count is a relaxed load. Making and dropping another owner acquires the writes that former owners
  // released.
  static_cast<void>(std::shared_ptr(storage_));
  return false;
}

bool Tensor::is_same_object(const Tensor& other) const noexcept {
  return defined() && storage_ == other.storage_ && detail::same_elements(view_, other.view_);
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "an empty Tensor";
  return detail::concat(tensor.shape(), " ", tensor.dtype(), " on ", tensor.device());
}

}  // namespace lockstep
