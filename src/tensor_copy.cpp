#include <optional>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "detail/concat.hpp"
#include "detail/expects.hpp"
#include "detail/tracing.hpp"
#include "tensor_checks.hpp"

/// Copies of tensors between devices, dtypes, layouts and the host.
namespace lockstep {

namespace {

/// Orders the destination's stream after the source's. This must come before the destination is allocated,
/// because the allocation belongs to that stream's work: if the source's stream is being captured, the other
/// stream must join the capture first.
void follow(const Device& destination, const Device& source) {
  if (destination.kind() == source.kind()) current_stream(destination).wait(current_stream(source));
}

bool is_captured(const StreamRef& stream) { return stream.device_backend().is_capturing(stream.handle()); }

/// In a step that is captured nothing passes between a device and the host, which is not there when the step
/// runs.
void require_no_traced_host(const TensorView& destination, const TensorView& source) {
  if (destination.device.kind() == source.device.kind() || detail::TraceScope::capturing() == nullptr) return;
  const bool is_read = destination.device.kind() == DeviceKind::cpu;
  detail::require_no_trace(detail::concat("A copy of ", source.shape, " ", source.dtype, " from ",
                                          source.device, " to ", destination.device),
                           is_read
                               ? "Return the tensor from the function, and copy it after the call."
                               : "Pass the tensor to the function as an argument, on the replica's device.");
}

/// Copies contiguous, non-empty memory between different devices. @pre follow
void transfer(const TensorView& destination, const TensorView& source) {
  require_no_traced_host(destination, source);
  const StreamRef to = current_stream(destination.device);
  const StreamRef from = current_stream(source.device);
  const auto num_bytes = static_cast<std::size_t>(source.nbytes());
  if (destination.device.kind() == source.device.kind()) {
    to.device_backend().copy_from_peer(destination.data, source.data, from.device_backend(), num_bytes,
                                       to.handle());
    // The source's next owner must not write before the copy has read. A graph reads when it is launched.
    if (is_captured(from) || !is_captured(to)) from.wait(to);
  } else if (destination.device.kind() == DeviceKind::cpu) {
    from.device_backend().copy_to_host(destination.data, source.data, num_bytes, from.handle());
    from.device_backend().synchronize(from.handle());  // page-locked memory may be written after copy_to_host
  } else {
    to.device_backend().copy_from_host(destination.data, source.data, num_bytes, to.handle());
  }
}

/// A view of a single element with another shape.
TensorView broadcast(TensorView view, const Shape& shape) {
  view.shape = shape;
  view.strides.fill(0);
  return view;
}

}  // namespace

Tensor Tensor::to(const Device& device) const {
  if (this->device() == device) return *this;
  if (size() == 0) return empty(shape(), dtype(), device);
  const Tensor source = contiguous();
  follow(device, source.device());
  Tensor result = empty(shape(), dtype(), device);
  transfer(result.view_, source.view_);
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = empty(shape(), dtype(), device());
  result.copy_(*this);
  return result;
}

Tensor Tensor::read_only() const {
  Tensor result = *this;
  result.view_.read_only = true;
  return result;
}

std::optional<StreamRef> Tensor::stream() const {
  if (!checked().storage_->defined()) return std::nullopt;
  return storage_->stream();
}

void Tensor::set_stream(StreamRef stream) {
  if (checked().storage_->defined()) storage_->set_stream(stream);
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::cast(DType dtype) const {
  if (this->dtype() == dtype) return *this;
  Tensor result = empty(shape(), dtype, device());
  if (size() > 0) {
    const StreamRef stream = current_stream(device());
    stream.device_backend().kernels().copy(result.view_, view_, stream.handle());
  }
  return result;
}

Tensor& Tensor::copy_(const Tensor& other) & {
  detail::require_writable("copy_", *this);
  detail::require_same_dtype("copy_", *this, other);
  if (other.rank() > 0) detail::require_same_shape("copy_", *this, other);
  if (size() == 0 || detail::same_elements(view_, other.view_)) return *this;

  const bool as_bytes = is_contiguous() && other.size() == size();
  const Tensor source = detail::may_overlap(view_, other.view_) ? other.clone() : other;
  if (device() != source.device()) {
    if (!as_bytes) return copy_(source.to(device()));
    const Tensor packed = source.contiguous();
    follow(device(), packed.device());
    transfer(view_, packed.view_);
    return *this;
  }
  const StreamRef stream = current_stream(device());
  if (as_bytes && source.is_contiguous()) {
    stream.device_backend().copy(view_.data, source.view_.data, static_cast<std::size_t>(nbytes()),
                                 stream.handle());
  } else {
    const TensorView from = source.shape() == shape() ? source.view_ : broadcast(source.view_, shape());
    stream.device_backend().kernels().copy(view_, from, stream.handle());
  }
  return *this;
}

Tensor& Tensor::fill_(const Scalar& value) & {
  detail::require_writable("fill_", *this);
  detail::require_holds("fill_", *this, value);
  if (size() > 0) {
    const StreamRef stream = current_stream(device());
    stream.device_backend().kernels().fill(view_, value, stream.handle());
  }
  return *this;
}

namespace {

void check_host_type(std::string_view what, const Tensor& t, DType dtype) {
  LOCKSTEP_EXPECTS(t.dtype() == dtype, InvalidArgument, what, ": cannot read ", describe(t), " as ", dtype,
                   ". Ask for the host type of ", t.dtype(), ", or cast the tensor first.");
}

}  // namespace

void Tensor::read_item(void* value, DType dtype) const {
  LOCKSTEP_EXPECTS(size() == 1, InvalidArgument, "Tensor::item: ", describe(*this), " has ", size(),
                   " elements, not 1. Use to_vector, or slice it first.");
  check_host_type("Tensor::item", *this, dtype);
  read_all(value, dtype);
}

void Tensor::read_all(void* values, DType dtype) const {
  check_host_type("Tensor::to_vector", *this, dtype);
  if (size() == 0) return;
  if (detail::TraceScope::has_rules())
    detail::require_no_trace(detail::concat("Reading the values of ", describe(*this)),
                             "Return the tensor from the function, and read it after the call; decide by "
                             "values outside, or compute with them on the device.");
  const Tensor source = contiguous();
  const StreamRef stream = current_stream(device());
  stream.device_backend().copy_to_host(values, source.view_.data, static_cast<std::size_t>(nbytes()),
                                       stream.handle());
  stream.synchronize();  // page-locked memory may be written after copy_to_host returns
}

}  // namespace lockstep
