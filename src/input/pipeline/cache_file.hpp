#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/input/detail/pass_state.hpp>

#include "detail/atomic_file.hpp"
#include "input/formats/byte_source.hpp"
#include "input/pipeline/pipeline.hpp"

/// Format of cache files: the text "lockstep cache 2", then little-endian blocks of a byte for the kind, 8
/// bytes for the content's length, the content, and its CRC-32. The kinds are 'P', element_texts of the
/// pipeline, which comes first; 'S', the elements' structure as in saved_structure.hpp, if there are any;
/// 'E', an element; and 'Z', the number of elements, which comes last.
namespace lockstep::detail {

/// Writes such a file. It appears as a whole with `commit`, or not at all.
class CacheFileWriter {
 public:
  /// @param pipeline  what the elements are of. @throws as AtomicFile.
  explicit CacheFileWriter(const std::filesystem::path& path, const std::vector<std::string>& pipeline = {});

  /// @param structure  called for the first element. @pre the tensors are contiguous and on the host.
  void write(const FlatElement& element, const std::function<std::vector<std::string>()>& structure);
  void commit();

 private:
  void write_texts(char kind, const std::vector<std::string>& texts);
  void write_block(char kind, std::string head, const FlatElement& data);
  void append(const void* data, std::size_t size_bytes);
  void flush();

  AtomicFile file_;
  std::string buffer_;
  std::uint64_t num_elements_ = 0;
};

/// Reads such a file without trusting it.
class CacheFileReader {
 public:
  /// @throws NotFound  the file cannot be opened. @throws FileFault
  explicit CacheFileReader(const std::filesystem::path& path);

  std::uint64_t size_bytes() const noexcept { return file_->size_bytes(); }
  std::uint64_t num_elements() const noexcept { return num_elements_; }
  /// What the elements are of.
  const std::vector<std::string>& pipeline() const noexcept { return pipeline_; }
  /// The structure of the elements; empty if there are none.
  const std::vector<std::string>& structure() const noexcept { return structure_; }
  /// @param spec  one for each tensor; empty: nothing is known.
  /// @throws FileFault  also if the element has another number of tensors, or a tensor does not match `spec`.
  std::optional<FlatElement> next(std::size_t num_leaves, std::span<const TensorSpec> spec = {});
  /// The byte of the next element and the number of those before.
  void transfer(PassState& state);
  /// Reports a fault at the current position. @throws FileFault
  [[noreturn]] void fail(std::string reason) const { source_.fail(source_.position(), std::move(reason)); }

 private:
  class Block;
  Block begin_block(char kind, std::string_view what);
  std::vector<std::string> read_texts(char kind, std::string_view what);
  void end_block(const Block& block);

  InputFileHandle file_;
  FileSource source_;  // all blocks but the last
  std::uint64_t num_elements_ = 0;
  std::uint64_t num_read_ = 0;
  std::vector<std::string> pipeline_, structure_;
};

}  // namespace lockstep::detail
