#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

/// Writes values one after another, as this machine represents them: workers run the same build.
class ByteWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    const auto* const begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(T));
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    put_bytes(std::as_bytes(std::span(text)));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  void clear() noexcept { bytes_.clear(); }

 private:
  RecycledVector<std::byte> bytes_;
};

/// Reads what a ByteWriter wrote. @throws Error  it ends too early.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// Valid as long as the bytes.
  std::string_view get_text() {
    const std::span<const std::byte> text = take(get<std::uint32_t>());
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  std::span<const std::byte> rest() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> take(std::size_t size) {
    LOCKSTEP_EXPECTS(size <= bytes_.size(), Error, "a message of another worker ends after ", bytes_.size(),
                     " bytes, where ", size, " are expected. Run the same build on all workers.");
    const std::span<const std::byte> taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace lockstep::detail
