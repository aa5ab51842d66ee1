#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep::detail {

/// The places of up to three bytes in a text, found by vectors a window at a time, so that finding the next
/// one compares nothing.
class ByteIndex {
 public:
  /// The most bytes behind a text that are read.
  static constexpr std::size_t kBlockBytes = 64;

  /// @param bytes  may be equal.
  explicit ByteIndex(const std::array<char, 3>& bytes)
      : bytes_(bytes), places_(std::make_unique_for_overwrite<std::uint32_t[]>(kMostPlaces)) {}

  /// The first of the bytes in [from, end), or end. @pre kBlockBytes can be read from `end` on. Until `reset`
  /// the text stays as it is, `end` stays, and `from` does not become less.
  const char* find(const char* from, const char* end) {
    for (;;) {
      for (; next_ < size_; ++next_)
        if (const char* const place = window_ + places_[next_]; place >= from) return place;
      if (searched_ == nullptr || searched_ < from) searched_ = from;
      if (searched_ >= end) return end;
      search(end);
    }
  }
  /// Forgets the text.
  void reset() noexcept {
    searched_ = nullptr;
    next_ = size_ = 0;
  }

 private:
  static constexpr std::size_t kWindowBytes = std::size_t{1} << 12;
  static constexpr std::size_t kMostPlaces = kWindowBytes + 4;  // they are written by fours

  /// Finds the places in the next window.
  void search(const char* end);

  std::array<char, 3> bytes_;
  std::unique_ptr<std::uint32_t[]> places_;  // in window_, ascending
  std::size_t next_ = 0, size_ = 0;          // in places_
  const char* window_ = nullptr;
  const char* searched_ = nullptr;  // the end of what has been searched
};

}  // namespace lockstep::detail
