#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detail/atomic_file.hpp"
#include "input/formats/byte_source.hpp"
#include "input/pipeline/pipeline.hpp"

/// Files of elements: the text "lockstep cache 1", then blocks, little-endian: a byte for the kind, the 8
/// bytes of the content's length, the content, its CRC-32. Kinds are 'S', the elements' structure as
/// saved_structure.hpp has it, first; 'E', an element; 'Z', the number of elements, last.
namespace lockstep::detail {

/// Writes such a file, which appears as a whole with `commit`, or not at all.
class CacheFileWriter {
 public:
  /// @throws as AtomicFile.
  explicit CacheFileWriter(const std::filesystem::path& path);

  /// @param structure  called for the first element. @pre contiguous tensors on the host.
  void write(const FlatElement& element, const std::function<std::vector<std::string>()>& structure);
  void commit();

 private:
  void write_block(char kind, std::string head, const FlatElement& data);
  void append(const void* data, std::size_t size_bytes);
  void flush();

  AtomicFile file_;
  std::string buffer_;
  std::uint64_t num_elements_ = 0;
};

/// Reads such a file, which is not trusted.
class CacheFileReader {
 public:
  /// @throws NotFound  it cannot be opened. @throws FileFault
  explicit CacheFileReader(const std::filesystem::path& path);

  std::uint64_t size_bytes() const noexcept { return file_->size_bytes(); }
  std::uint64_t num_elements() const noexcept { return num_elements_; }
  /// Of the elements; empty where there are none.
  const std::vector<std::string>& structure() const noexcept { return structure_; }
  /// @param spec  one for each tensor; none: nothing is known.
  /// @throws FileFault  also where the element has another number of tensors, or one is not as `spec` says.
  std::optional<FlatElement> next(std::size_t num_leaves, std::span<const TensorSpec> spec = {});
  /// Throws that the file is wrong where it has been read to. @throws FileFault
  [[noreturn]] void fail(std::string reason) const { source_.fail(source_.position(), std::move(reason)); }

 private:
  void begin_block(char kind, std::string_view what);
  void end_block();
  void read(void* data, std::uint64_t size_bytes, std::string_view what);
  template <class T>
  T read_number(std::string_view what);

  InputFileHandle file_;
  FileSource source_;  // of the blocks but the last
  std::uint64_t block_left_ = 0;
  std::uint32_t crc_ = 0;
  std::uint64_t num_elements_ = 0;
  std::uint64_t num_read_ = 0;
  std::vector<std::string> structure_;
};

}  // namespace lockstep::detail
