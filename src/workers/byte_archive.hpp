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

/// Reads what a ByteWriter wrote. @throws Error  it ends too early, or has what no writer of this build
/// writes.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    if constexpr (std::is_same_v<T, bool>) {
      return get<std::uint8_t>() != 0;
    } else {
      T value;
      std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
      return value;
    }
  }
  /// An enumerator, of which there are so many.
  template <class T>
  T get_enum(std::size_t num_enumerators) {
    const auto value = get<std::uint8_t>();
    static_assert(sizeof(T) == sizeof value);
    LOCKSTEP_EXPECTS(value < num_enumerators, Error, "a message of another worker has ", int{value},
                     " where numbers below ", num_enumerators,
                     " are expected. Run the same build on all workers.");
    return static_cast<T>(value);
  }
  /// The length of a list, whose elements have at least so many bytes each.
  std::size_t get_length(std::size_t element_bytes) {
    const auto length = std::size_t{get<std::uint32_t>()};
    LOCKSTEP_EXPECTS(length <= bytes_.size() / element_bytes, Error, "a message of another worker has ",
                     bytes_.size(), " bytes more, which ", length,
                     " elements do not fit in. Run the same build on all workers.");
    return length;
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
