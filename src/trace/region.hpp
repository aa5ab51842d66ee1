#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace lockstep::detail {

/// The names of a thread's trace::Regions, one behind the other: "train/backward". The last kMaxBytes count.
struct RegionPath {
  static constexpr std::size_t kMaxBytes = 32;

  std::array<char, kMaxBytes> text{};
  std::size_t size = 0;

  std::string_view view() const noexcept { return {text.data(), size}; }
  void append(std::string_view name) noexcept;

  /// The calling thread's.
  static RegionPath& own() noexcept;
};

/// While it lives, the thread's work is within these regions of another thread.
class [[nodiscard]] RegionScope {
 public:
  explicit RegionScope(const RegionPath& path) noexcept : outer_(RegionPath::own()) {
    RegionPath::own() = path;
  }
  ~RegionScope() { RegionPath::own() = outer_; }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  const RegionPath outer_;
};

}  // namespace lockstep::detail
