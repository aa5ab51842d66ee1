#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

/// Finds any of four bytes in a text, 64 bytes at a time: a block is compared once, however many of them it
/// has.
class ByteFinder {
 public:
  static constexpr std::size_t kBlockBytes = 64;

  explicit ByteFinder(const std::array<char, 4>& bytes) : bytes_(bytes) {}

  /// The first of the bytes in [from, end), or end. @pre kBlockBytes can be read from `end` on. The text
  /// stays as it is until `reset`.
  const char* find(const char* from, const char* end) {
    while (from < end) {
      const auto offset = static_cast<std::size_t>(from - block_);
      if (block_ == nullptr || from < block_ || offset >= kBlockBytes) {
        block_ = from;
        found_ = compare(from, bytes_);
      } else if (const std::uint64_t left = found_ >> offset; left != 0) {
        from += std::countr_zero(left);
        return from < end ? from : end;
      } else {
        from = block_ + kBlockBytes;
      }
    }
    return end;
  }
  /// Forgets the text.
  void reset() noexcept { block_ = nullptr; }

 private:
  /// A bit for each byte of a block, whether it is one of the four.
  static std::uint64_t compare(const char* block, const std::array<char, 4>& bytes);

  std::array<char, 4> bytes_;
  const char* block_ = nullptr;
  std::uint64_t found_ = 0;  // of the block
};

}  // namespace lockstep::detail
