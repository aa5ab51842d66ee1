#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace lockstep::detail {

/// Text of limited length, without memory of its own from the heap: for signal handlers, too. What does not
/// fit is left out.
template <std::size_t kCapacity>
class BoundedText {
 public:
  BoundedText& operator<<(std::string_view text) noexcept {
    const std::size_t size = std::min(text.size(), kCapacity - size_);
    std::memcpy(text_.data() + size_, text.data(), size);
    size_ += size;
    return *this;
  }
  BoundedText& operator<<(std::integral auto number) noexcept {
    const auto result = std::to_chars(text_.data() + size_, text_.data() + kCapacity, number);
    if (result.ec == std::errc()) size_ = static_cast<std::size_t>(result.ptr - text_.data());
    return *this;
  }
  std::string_view view() const noexcept { return {text_.data(), size_}; }
  void clear() noexcept { size_ = 0; }

 private:
  std::array<char, kCapacity> text_;
  std::size_t size_ = 0;
};

}  // namespace lockstep::detail
