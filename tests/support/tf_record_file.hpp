#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "support/npy_file.hpp"

namespace lockstep::test {

/// CRC-32C bit by bit, as RFC 3720, appendix B.4, defines it.
inline std::uint32_t plain_crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

/// A record of a TFRecord file.
inline std::string tf_record_bytes(std::string_view data) {
  const auto masked = [](std::string_view bytes) {
    return bytes_of(std::rotr(plain_crc32c(bytes), 15) + 0xa282ead8U);
  };
  const std::string length = bytes_of(std::uint64_t{data.size()});
  return length + masked(length) + std::string(data) + masked(data);
}

}  // namespace lockstep::test
