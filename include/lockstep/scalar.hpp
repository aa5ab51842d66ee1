#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>

#include <lockstep/detail/saturate_cast.hpp>
#include <lockstep/dtype.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// A number on the host, kept exactly: a double, or a 64-bit integer. Takes the dtype of the tensor it meets,
/// which must be able to hold it (`fits`); otherwise the operation throws InvalidArgument.
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
  [[nodiscard]] T as() const {
    switch (kind_) {
      case Kind::signed_integer: return detail::saturate_cast<T>(signed_);
      case Kind::unsigned_integer: return detail::saturate_cast<T>(unsigned_);
      case Kind::floating: break;
    }
    return detail::saturate_cast<T>(floating_);
  }

  /// Whether a tensor of `dtype` can hold the number: integers and booleans (0 and 1) as it is, floating
  /// dtypes but for rounding, by which no finite number may become another.
  [[nodiscard]] bool fits(DType dtype) const;

  /// Whether both are the same number, however they are written: 1, 1u and 1.0 are. NaN is NaN.
  friend bool operator==(const Scalar& a, const Scalar& b) noexcept;
  friend std::ostream& operator<<(std::ostream& out, const Scalar& value);

 private:
  enum class Kind : std::uint8_t { floating, signed_integer, unsigned_integer };
  /// The number in the only way to write it: an unsigned integer, else a signed one, else a double.
  Scalar normalized() const noexcept;

  Kind kind_;
  union {
    double floating_;
    std::int64_t signed_;
    std::uint64_t unsigned_;
  };
};

}  // namespace lockstep

#pragma GCC visibility pop
