#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

/// An unsigned number from its bytes, least significant first.
template <std::unsigned_integral T>
T load_little_endian(const std::uint8_t* bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | (T{bytes[i]} << (8 * i)));
  return value;
}

/// An unsigned number from its bytes, most significant first.
template <std::unsigned_integral T>
T load_big_endian(const std::uint8_t* bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>((value << 8) | bytes[i]);
  return value;
}

/// Reverses the bytes of each element.
inline void swap_bytes(std::byte* data, std::int64_t num_elements, std::size_t element_bytes) {
  for (std::int64_t i = 0; i < num_elements; ++i, data += element_bytes)
    std::reverse(data, data + element_bytes);
}

/// Turns each byte into a valid bool: any byte but 0 is true.
inline void make_booleans(std::byte* data, std::int64_t num_elements) {
  std::transform(data, data + num_elements, data, [](std::byte b) { return std::byte(b != std::byte(0)); });
}

}  // namespace lockstep::detail
