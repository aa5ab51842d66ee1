#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/buffer.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/tensor_view.hpp>

namespace lockstep::test {

/// The element type of a host vector of Ts: vector<bool> has no memory to copy from.
template <class T>
using HostElement = std::conditional_t<std::same_as<T, bool>, std::uint8_t, T>;

/// Elements on a device, `offset_bytes` past a 256-byte boundary, between guard bytes.
template <Element T>
class GuardedBuffer {
 public:
  using Values = std::vector<HostElement<T>>;

  GuardedBuffer(const StreamRef& stream, const Values& values, std::size_t offset_bytes = 0)
      : stream_(stream),
        offset_(kGuard + offset_bytes),
        num_elements_(values.size()),
        buffer_(offset_ + values.size() * sizeof(T) + kGuard, stream) {
    std::vector<std::byte> bytes(buffer_.size_bytes(), kPattern);
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    std::copy(begin, begin + values.size() * sizeof(T), bytes.begin() + static_cast<std::ptrdiff_t>(offset_));
    stream.device_backend().copy_from_host(buffer_.data(), bytes.data(), bytes.size(), stream.handle());
    stream.synchronize();
  }

  TensorView view(const std::optional<Shape>& shape = {}) const {
    return TensorView(static_cast<std::byte*>(buffer_.data()) + offset_,
                      shape.value_or(Shape(static_cast<std::int64_t>(num_elements_))), dtype_of<T>,
                      stream_.device());
  }
  /// Waits for the stream.
  Values values() const {
    const std::vector<std::byte> bytes = read();
    Values result(num_elements_);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset_), num_elements_ * sizeof(T),
                reinterpret_cast<std::byte*>(result.data()));
    return result;
  }
  bool guards_intact() const {
    const std::vector<std::byte> bytes = read();
    const auto is_pattern = [](std::byte byte) { return byte == kPattern; };
    return std::all_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(offset_), is_pattern) &&
           std::all_of(bytes.end() - static_cast<std::ptrdiff_t>(kGuard), bytes.end(), is_pattern);
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::byte kPattern{0xa5};

  std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(buffer_.size_bytes());
    stream_.device_backend().copy_to_host(bytes.data(), buffer_.data(), bytes.size(), stream_.handle());
    stream_.synchronize();
    return bytes;
  }

  StreamRef stream_;
  std::size_t offset_;
  std::size_t num_elements_;
  Buffer buffer_;
};

}  // namespace lockstep::test
