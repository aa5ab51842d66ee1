#pragma once

#include <concepts>
#include <cstdint>

#include <lockstep/detail/saturate_cast.hpp>
#include <lockstep/dtype.hpp>

namespace lockstep {

/// A number on the host, kept exactly: a double, or a 64-bit integer. Takes the dtype of the tensor it meets.
class Scalar {
 public:
  template <std::integral I>
  Scalar(I value) : kind_(std::signed_integral<I> ? Kind::signed_integer : Kind::unsigned_integer) {
    if constexpr (std::signed_integral<I>)
      signed_ = value;
    else
      unsigned_ = value;
  }
  template <Element F>
  requires(!std::integral<F>) Scalar(F value) : kind_(Kind::floating) {
    if constexpr (std::same_as<F, double>)
      floating_ = value;
    else
      floating_ = detail::to_double(value);
  }

  /// The value as a T: a C++ conversion, but floating to integer saturates and takes NaN to 0, anything to
  /// boolean is "not zero", and to small floats there is one rounding.
  template <Element T>
  T as() const {
    switch (kind_) {
      case Kind::signed_integer: return detail::saturate_cast<T>(signed_);
      case Kind::unsigned_integer: return detail::saturate_cast<T>(unsigned_);
      case Kind::floating: break;
    }
    return detail::saturate_cast<T>(floating_);
  }

  /// Equal kinds and values.
  friend bool operator==(const Scalar& a, const Scalar& b) noexcept {
    if (a.kind_ != b.kind_) return false;
    return a.kind_ == Kind::floating ? a.floating_ == b.floating_ : a.unsigned_ == b.unsigned_;
  }

 private:
  enum class Kind : std::uint8_t { floating, signed_integer, unsigned_integer };
  Kind kind_;
  union {
    double floating_;
    std::int64_t signed_;
    std::uint64_t unsigned_;
  };
};

}  // namespace lockstep
