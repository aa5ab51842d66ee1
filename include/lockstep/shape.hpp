#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/detail/recycling_allocator.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Extents of a tensor, row-major. A value; no allocation. Rank 0 is a scalar with one element.
class Shape {
 public:
  /// Largest rank.
  static constexpr int kMaxRank = 8;

  Shape() = default;
  /// Extents in elements, outermost first.
  /// @throws InvalidArgument  an extent is negative, the rank exceeds kMaxRank, or the elements, at 8 bytes
  /// each, overflow 64 bits.
  template <std::integral... I>
  requires(sizeof...(I) > 0) Shape(I... extents) {
    const std::int64_t list[] = {static_cast<std::int64_t>(extents)...};
    set(list);
  }
  /// Takes a contiguous range of extents. A braced list is not a range, so that `Shape({1, 6})` means
  /// `Shape{1, 6}`.
  template <class R>
  requires(
      !std::same_as<R, Shape> &&
      std::constructible_from<std::span<const std::int64_t>, const R&>) explicit Shape(const R& extents) {
    set(std::span<const std::int64_t>(extents));
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// Number of elements; 1 for a scalar.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Extent of `axis`; negative axes count from the end.
  /// @throws InvalidArgument  the axis is outside [-rank, rank).
  [[nodiscard]] std::int64_t operator[](int axis) const;
  [[nodiscard]] std::span<const std::int64_t> extents() const& noexcept {
    return {extents_.data(), static_cast<std::size_t>(rank_)};
  }
  void extents() const&& = delete;  // the span would outlive the extents
  auto begin() const noexcept { return extents_.begin(); }
  [[nodiscard]] auto end() const noexcept { return extents_.begin() + rank_; }

  /// Checks an axis and converts negative axes, which count from the end.
  /// @throws InvalidArgument  the axis is outside [-rank, rank); the message has the axis, the rank and
  /// `what`.
  [[nodiscard]] int normalize_axis(std::int64_t axis, std::string_view what) const;
  /// A copy with one extent replaced, or with an axis removed; negative axes count from the end.
  /// @throws InvalidArgument  the axis is out of range, or the new shape is not valid.
  [[nodiscard]] Shape with(int axis, std::int64_t extent) const;
  [[nodiscard]] Shape without(int axis) const;
  /// Row-major strides in elements.
  [[nodiscard]] std::array<std::int64_t, kMaxRank> contiguous_strides() const noexcept;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(a.rank_); ++i)
      if (a.extents_[i] != b.extents_[i]) return false;
    return true;
  }

 private:
  /// Sets the extents of a new shape.
  void set(std::span<const std::int64_t> extents);

  std::array<std::int64_t, kMaxRank> extents_{};
  std::int64_t size_ = 1;
  int rank_ = 0;
};

/// "[4, 3]", "[]" for a scalar.
[[nodiscard]] std::string to_string(const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// Axes of a reduction. Converts implicitly from one axis or a list; an empty list means no axes.
class Axes {
 public:
  Axes() = default;
  template <std::integral I>
  Axes(I axis) : axes_{static_cast<std::int64_t>(axis)} {}
  Axes(std::initializer_list<std::int64_t> axes) : axes_(axes) {}
  Axes(const std::vector<std::int64_t>& axes) : axes_(axes.begin(), axes.end()) {}

  [[nodiscard]] bool empty() const noexcept { return axes_.empty(); }
  [[nodiscard]] std::span<const std::int64_t> values() const& noexcept { return axes_; }
  void values() const&& = delete;  // the span would outlive the axes
  /// Sorted axes in [0, rank), each once.
  /// @throws InvalidArgument  an axis is out of range or repeated.
  [[nodiscard]] detail::RecycledVector<int> normalized(const Shape& shape, const char* what) const;

 private:
  detail::RecycledVector<std::int64_t> axes_;
};

}  // namespace lockstep

#pragma GCC visibility pop
