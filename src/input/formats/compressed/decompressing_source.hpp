#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "input/formats/byte_source.hpp"

namespace lockstep::detail {

/// The decompressed bytes of another source, which it reads by blocks.
class DecompressingSource : public ByteSource {
 public:
  std::uint64_t max_left() const noexcept final;
  std::string part() const final { return " of the decompressed data"; }

 protected:
  /// @param max_expansion  the most bytes to which one byte decompresses. @param max_held  bytes that may
  /// have been taken from input() and not been given yet.
  DecompressingSource(std::unique_ptr<ByteSource> compressed, std::uint64_t max_expansion,
                      std::uint64_t max_held);

  /// Writes up to `size_bytes` bytes, and takes what it uses of input(). Calls `end` behind the last byte,
  /// and fails where the compressed data is wrong. @return the bytes written; 0 only at the end, or if there
  /// was input.
  virtual std::size_t decompress(std::byte* data, std::size_t size_bytes) = 0;
  /// Compressed bytes that have been read; none only at the end of the compressed source.
  std::string_view input();
  void take(std::size_t size_bytes) noexcept { next_ += size_bytes; }
  void end() noexcept { ended_ = true; }
  /// Reports a fault at the next compressed byte. @throws FileFault
  [[noreturn]] void fail_compressed(std::string reason) const;
  [[noreturn]] void fail_damaged(std::string_view reason) const;
  [[noreturn]] void fail_cut_short() const;

 private:
  std::size_t do_read(std::byte* data, std::size_t size_bytes) final;

  std::unique_ptr<ByteSource> compressed_;
  std::uint64_t max_expansion_, max_held_;
  std::vector<char> buffer_;
  std::size_t next_ = 0, end_ = 0;  // of input() in buffer_
  bool ended_ = false;
};

}  // namespace lockstep::detail
