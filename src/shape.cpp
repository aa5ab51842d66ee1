#include <algorithm>
#include <limits>
#include <ostream>

#include <lockstep/error.hpp>
#include <lockstep/shape.hpp>

#include "detail/expects.hpp"

namespace lockstep {
namespace {

// Elements have at most 8 bytes, so sizes in bytes do not overflow either.
constexpr std::int64_t kMaxSize = std::numeric_limits<std::int64_t>::max() / 8;

std::string list(std::span<const std::int64_t> values) {
  std::string result = "[";
  for (const std::int64_t value : values) {
    if (result.size() > 1) result += ", ";
    result += std::to_string(value);
  }
  return result + "]";
}

}  // namespace

void Shape::set(std::span<const std::int64_t> extents) {
  LOCKSTEP_EXPECTS(extents.size() <= kMaxRank, InvalidArgument, "Shape: rank ", extents.size(), " of ",
                   list(extents), " exceeds the largest, ", kMaxRank, ". Join axes.");
  bool overflow = false;
  bool has_zero = false;
  for (const std::int64_t extent : extents) {
    LOCKSTEP_EXPECTS(extent >= 0, InvalidArgument, "Shape: extent ", extent, " in ", list(extents),
                     " is negative. Pass extents of at least 0.");
    has_zero |= extent == 0;
    // After an overflow or a zero the product has no meaning; the flags decide.
    overflow |= __builtin_mul_overflow(size_, extent, &size_) || size_ > kMaxSize;
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
  if (has_zero) size_ = 0;
  LOCKSTEP_EXPECTS(has_zero || !overflow, InvalidArgument, "Shape: ", list(extents), " has more than ",
                   kMaxSize, " elements, whose size in bytes does not fit 64 bits. Pass smaller extents.");
}

std::int64_t Shape::operator[](int axis) const {
  return extents_[static_cast<std::size_t>(normalize_axis(axis, "Shape::operator[]"))];
}

int Shape::normalize_axis(std::int64_t axis, std::string_view what) const {
  LOCKSTEP_EXPECTS(rank_ > 0, InvalidArgument, what, ": axis ", axis,
                   " of a scalar, which has rank 0 and no axes. Reshape it to rank 1 first.");
  LOCKSTEP_EXPECTS(axis >= -rank_ && axis < rank_, InvalidArgument, what, ": axis ", axis, " is outside [",
                   -rank_, ", ", rank_, ") for shape ", *this, " of rank ", rank_,
                   ". Count axes from 0, or from the last, which is -1.");
  return static_cast<int>(axis < 0 ? axis + rank_ : axis);
}

Shape Shape::with(int axis, std::int64_t extent) const {
  auto extents = extents_;
  extents[static_cast<std::size_t>(normalize_axis(axis, "Shape::with"))] = extent;
  return Shape(std::span(extents.data(), static_cast<std::size_t>(rank_)));
}

Shape Shape::without(int axis) const {
  auto extents = extents_;
  const int removed = normalize_axis(axis, "Shape::without");
  std::copy(extents_.begin() + removed + 1, extents_.begin() + rank_, extents.begin() + removed);
  return Shape(std::span(extents.data(), static_cast<std::size_t>(rank_ - 1)));
}

std::array<std::int64_t, Shape::kMaxRank> Shape::contiguous_strides() const noexcept {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t stride = 1;
  for (int axis = rank_ - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    strides[i] = stride;
    // This overflows only beside a zero extent, where no stride is used.
    if (__builtin_mul_overflow(stride, extents_[i], &stride)) stride = 0;
  }
  return strides;
}

std::string to_string(const Shape& shape) { return list(shape.extents()); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

detail::RecycledVector<int> Axes::normalized(const Shape& shape, const char* what) const {
  detail::RecycledVector<int> result;
  result.reserve(axes_.size());
  for (const std::int64_t axis : axes_) result.push_back(shape.normalize_axis(axis, what));
  std::sort(result.begin(), result.end());
  const auto repeated = std::adjacent_find(result.begin(), result.end());
  LOCKSTEP_EXPECTS(repeated == result.end(), InvalidArgument, what, ": axes ", list(axes_), " of shape ",
                   shape, " name axis ", *repeated, " twice. Name each axis once.");
  return result;
}

}  // namespace lockstep
