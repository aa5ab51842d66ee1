#include <cmath>
#include <ostream>

#include <lockstep/scalar.hpp>

namespace lockstep {

Scalar Scalar::normalized() const noexcept {
  if (kind_ == Kind::signed_integer && signed_ >= 0) return static_cast<std::uint64_t>(signed_);
  if (kind_ != Kind::floating || floating_ != std::trunc(floating_)) return *this;
  if (floating_ >= 0 && floating_ < 0x1p64) return static_cast<std::uint64_t>(floating_);
  if (floating_ < 0 && floating_ >= -0x1p63) return static_cast<std::int64_t>(floating_);
  return *this;
}

bool operator==(const Scalar& a, const Scalar& b) noexcept {
  const Scalar x = a.normalized(), y = b.normalized();
  if (x.kind_ != y.kind_) return false;
  if (x.kind_ != Scalar::Kind::floating) return x.unsigned_ == y.unsigned_;
  return x.floating_ == y.floating_ || (std::isnan(x.floating_) && std::isnan(y.floating_));
}

bool Scalar::fits(DType dtype) const {
  return dispatch(dtype, [&]<class T>() {
    if constexpr (std::integral<T>)
      return Scalar(as<T>()) == *this;
    else
      return std::isfinite(static_cast<double>(as<T>())) || !std::isfinite(as<double>());
  });
}

std::ostream& operator<<(std::ostream& out, const Scalar& value) {
  switch (value.kind_) {
    case Scalar::Kind::signed_integer: return out << value.signed_;
    case Scalar::Kind::unsigned_integer: return out << value.unsigned_;
    case Scalar::Kind::floating: break;
  }
  return out << value.floating_;
}

}  // namespace lockstep
