#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

#include <lockstep/tensor.hpp>

#include "support/zip_file.hpp"

namespace lockstep::test {

inline Tensor bytes_tensor(std::string_view bytes) {
  return Tensor::from(std::vector<std::uint8_t>(bytes.begin(), bytes.end()), Shape(bytes.size()));
}

inline std::string png_chunk(const std::string& kind, const std::string& data) {
  const std::string body = kind + data;
  const auto crc =
      static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size()));
  return bytes_of(static_cast<std::uint32_t>(data.size()), true) + body + bytes_of(crc, true);
}

/// A PNG file of rows that are not filtered. @param color  0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6
/// RGBA.
inline std::string png_file(std::uint32_t width, std::uint32_t height, int depth, int color,
                            const std::vector<std::string>& rows) {
  std::string data;
  for (const std::string& row : rows) data += '\0' + row;
  const std::string form{static_cast<char>(depth), static_cast<char>(color), '\0', '\0', '\0'};
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", bytes_of(width, true) + bytes_of(height, true) + form) +
         png_chunk("IDAT", compressed(data, 15)) + png_chunk("IEND", "");
}

}  // namespace lockstep::test
