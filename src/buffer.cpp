#include <utility>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/buffer.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep {

Buffer::Buffer(std::size_t size_bytes, StreamRef stream)
    : size_bytes_(size_bytes), device_(&stream.device_backend()), stream_(stream.handle()) {
  if (size_bytes > 0) data_ = device_->allocate(size_bytes, stream_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      device_(std::exchange(other.device_, nullptr)),
      stream_(other.stream_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    device_ = std::exchange(other.device_, nullptr);
    stream_ = other.stream_;
  }
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() noexcept {
  if (data_ != nullptr) device_->deallocate(data_, size_bytes_, stream_);
}

StreamRef Buffer::stream() const {
  LOCKSTEP_EXPECTS(
      device_ != nullptr, ContextError,
      "Buffer::stream: the Buffer is empty: default-constructed or moved from. Assign one to it first.");
  return {*device_, stream_};
}

std::span<std::byte> Buffer::host_bytes() const& {
  LOCKSTEP_EXPECTS(
      device_ != nullptr, ContextError,
      "Buffer::host_bytes: the Buffer is empty: default-constructed or moved from. Assign one to it first.");
  LOCKSTEP_EXPECTS(device_->device().kind() == DeviceKind::cpu, InvalidArgument, "Buffer::host_bytes: the ",
                   size_bytes_, " bytes are on ", device_->device(),
                   ", which the host cannot read. Copy them to a CPU buffer first.");
  return {static_cast<std::byte*>(data_), size_bytes_};
}

Buffer Buffer::clone(StreamRef stream) const {
  LOCKSTEP_EXPECTS(
      device_ != nullptr, ContextError,
      "Buffer::clone: the Buffer is empty: default-constructed or moved from. Assign one to it first.");
  LOCKSTEP_EXPECTS(device_ == &stream.device_backend(), InvalidArgument, "Buffer::clone: the ", size_bytes_,
                   " bytes are on ", device_->device(), ", the stream is of ", stream.device(),
                   ". Pass a stream of the buffer's device.");
  Buffer copy(size_bytes_, stream);
  if (size_bytes_ > 0) device_->copy(copy.data_, data_, size_bytes_, stream.handle());
  return copy;
}

void Buffer::set_stream(StreamRef stream) {
  LOCKSTEP_EXPECTS(
      device_ != nullptr, ContextError,
      "Buffer::set_stream: the Buffer is empty: default-constructed or moved from. Assign one to it first.");
  LOCKSTEP_EXPECTS(device_ == &stream.device_backend(), InvalidArgument, "Buffer::set_stream: the ",
                   size_bytes_, " bytes are on ", device_->device(), ", the stream is of ", stream.device(),
                   ". Pass a stream of the buffer's device.");
  stream_ = stream.handle();
}

}  // namespace lockstep
