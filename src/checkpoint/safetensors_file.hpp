#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <lockstep/tensor.hpp>

#include "checkpoint/safetensors_header.hpp"
#include "detail/input_file.hpp"

namespace lockstep::detail {

/// A safetensors file, open for reading. Its header has been checked, so that no tensor is allocated that is
/// larger than the file. It stays the same file when another one takes its name.
class SafetensorsFile {
 public:
  /// @param what  the operation, for messages.
  /// @throws NotFound  it cannot be opened. @throws InvalidArgument  it is not such a file: the entry, and
  /// why.
  SafetensorsFile(std::filesystem::path path, std::string_view what, Links links = Links::followed);

  /// All entries, by key.
  const SafetensorsEntries& entries() const noexcept { return entries_; }

  /// An entry's data, on CPU:0. Any byte but 0 is true. @throws InvalidArgument  the file was cut short
  /// meanwhile. @throws Error  it cannot be read. @pre the entry is one of
  /// entries(), and supported.
  Tensor read(const SafetensorsEntry& entry) const;
  /// The same into a contiguous tensor on the host, of the entry's shape and dtype.
  void read(const SafetensorsEntry& entry, Tensor& tensor) const;

 private:
  InputFile open(Links links) const;
  void read_header();
  void read_at(void* data, std::uint64_t size_bytes, std::uint64_t position, const std::string& key) const;
  [[noreturn]] void refuse(const SafetensorsFault& fault) const;
  [[noreturn]] void refuse(const FileFault& fault, const std::string& key) const;

  std::filesystem::path path_;
  std::string what_;
  InputFile file_;
  std::uint64_t data_position_ = 0;  // the first byte after the header
  SafetensorsEntries entries_;
};

/// Writes a file of these tensors, contiguous and on the host, which replaces the one at `path` as a whole.
/// Equal tensors under equal keys make equal files, byte for byte: large elements come first, so that all are
/// aligned, and those of one size in the order of their keys.
/// @throws as AtomicFile. @throws InvalidArgument  the header would be too long to be read.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                       std::string_view what);

}  // namespace lockstep::detail
