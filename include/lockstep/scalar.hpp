#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>

#include <lockstep/detail/saturate_cast.hpp>
#include <lockstep/dtype.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// A number on the host, kept exactly as a double or a 64-bit integer. It takes the dtype of the tensor it is
/// combined with. That dtype must be able to hold it (`fits`); otherwise the operation throws
/// InvalidArgument.
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

  /// The value as a T, by a C++ conversion, except that floating to integer saturates and takes NaN to 0,
  /// anything to boolean is "not zero", and conversion to a small float rounds once.
  template <Element T>
  [[nodiscard]] T as() const {
    switch (kind_) {
      case Kind::signed_integer: return detail::saturate_cast<T>(signed_);
      case Kind::unsigned_integer: return detail::saturate_cast<T>(unsigned_);
      case Kind::floating: break;
    }
    return detail::saturate_cast<T>(floating_);
  }

  /// Whether a tensor of `dtype` can hold the number: exactly in integers and booleans (0 and 1), rounded in
  /// floating dtypes. Rounding must not turn a finite number into an infinity or NaN.
  [[nodiscard]] bool fits(DType dtype) const;

  /// Whether both are the same number, in whatever type: 1, 1u and 1.0 are equal. NaN equals NaN.
  friend bool operator==(const Scalar& a, const Scalar& b) noexcept;
  friend std::ostream& operator<<(std::ostream& out, const Scalar& value);

 private:
  enum class Kind : std::uint8_t { floating, signed_integer, unsigned_integer };
  /// The number's unique representation: an unsigned integer if possible, else a signed one, else a double.
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
