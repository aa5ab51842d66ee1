#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "input/formats/byte_source.hpp"

namespace lockstep::detail {

/// Reads a source by blocks, so that its bytes are searched and parsed where they lie. A record that reaches
/// beyond a block is moved to the buffer's front, and the buffer grows only when a record fills it.
class BlockReader {
 public:
  /// Room behind the bytes of `rest`, which may be read and has any contents: a whole vector can be loaded.
  static constexpr std::size_t kPaddingBytes = 64;

  explicit BlockReader(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  /// The bytes that were read and have not been taken, until the next `fill`.
  std::string_view rest() const noexcept { return {buffer_.get() + begin_, end_ - begin_}; }
  /// Reads more bytes behind rest(). @return false at the end of the source. @throws FileFault
  bool fill();
  void take(std::size_t size_bytes) noexcept { begin_ += size_bytes; }
  /// Passes over bytes, also of those that were not read yet. @throws FileFault  fewer are left.
  void skip(std::uint64_t size_bytes) {
    const std::size_t kept = static_cast<std::size_t>(std::min<std::uint64_t>(size_bytes, rest().size()));
    take(kept);
    if (kept < size_bytes) source_->skip(size_bytes - kept);
  }
  /// Of rest()'s first byte.
  std::uint64_t position() const noexcept { return source_->position() - (end_ - begin_); }
  const ByteSource& source() const noexcept { return *source_; }

 private:
  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0, end_ = 0;  // of rest() in the buffer
};

}  // namespace lockstep::detail
