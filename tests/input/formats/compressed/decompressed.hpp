#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "input/formats/byte_source.hpp"
#include "support/npy_file.hpp"

/// What the tests of all decompressing sources do.
namespace lockstep::test {

inline std::unique_ptr<detail::ByteSource> file_source(const std::filesystem::path& path) {
  return std::make_unique<detail::FileSource>(std::make_shared<const detail::InputFile>(path, "test"));
}

/// All that a file decompresses to, read in pieces, or why it does not. @param open  makes the source of a
/// compressed one.
template <class Open>
std::string decompressed_by(const Open& open, const std::string& bytes, std::size_t piece) {
  const TemporaryFile file(bytes);
  std::string result;
  try {
    const auto source = open(file_source(file.path()));
    for (;;) {
      std::string part(piece, '\0');
      CHECK(source->position() == result.size());
      part.resize(source->read_some(part.data(), part.size()));
      result += part;
      if (part.size() < piece) return result;
    }
  } catch (const detail::FileFault& fault) {
    return "fault at " + std::to_string(fault.position) + fault.part + ": " + fault.reason;
  }
}

/// Checks that each beginning of compressed data is a fault where it ends.
template <class Decompress>
void check_cut_short(const Decompress& decompress, const std::string& whole, std::size_t first) {
  for (std::size_t size = first; size < whole.size(); ++size) {
    INFO(size);
    CHECK(decompress(whole.substr(0, size)) ==
          "fault at " + std::to_string(size) + ": the compressed data is cut short");
  }
}

/// Numbers that compress well.
inline std::string numbers_text() {
  std::string result;
  for (int i = 0; i < 60'000; ++i) result += std::to_string(std::int64_t{i} * i % 7919) + ",";
  return result;
}

}  // namespace lockstep::test
