#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::test {

/// A file in the safetensors format: the header's length, the header, and the data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(std::uint64_t{header.size()} >> (8 * i) & 0xff);
  return bytes.append(header).append(data);
}

/// A header's entry.
inline std::string safetensors_entry(std::string_view key, std::string_view dtype, std::string_view shape,
                                     std::string_view offsets) {
  std::string text = "\"";
  text.append(key).append(R"(":{"dtype":")").append(dtype).append(R"(","shape":[)").append(shape);
  return text.append(R"(],"data_offsets":[)").append(offsets).append("]}");
}

}  // namespace lockstep::test
