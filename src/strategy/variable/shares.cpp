#include "strategy/variable/shares.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

namespace lockstep::detail {

namespace {

/// Sets parts[i][k], for all i, to the parts of values[k].
template <std::integral T>
void share(std::span<const T> values, std::span<T* const> parts) {
  const auto n = static_cast<std::int64_t>(parts.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    const Wide quotient = static_cast<Wide>(values[k]) / static_cast<Wide>(n);
    const auto rest = static_cast<std::int64_t>(values[k] - quotient * static_cast<Wide>(n));
    for (std::int64_t i = 0; i < n; ++i)
      parts[static_cast<std::size_t>(i)][k] =
          static_cast<T>(quotient + static_cast<Wide>(i < rest) - static_cast<Wide>(i < -rest));
  }
}

/// Multiples of one unit add up without rounding. A sum of the value's magnitude, or less than twice that, is
/// a multiple of the value's last place or of a larger unit, so value + quotient - value is the quotient in
/// such units.
template <class T>
requires(!std::integral<T>) void share(std::span<const T> values, std::span<T* const> parts) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto n = static_cast<Wide>(parts.size());
  // All larger numbers have the unit of the largest power of two; the value, and twice that power, may be
  // infinite.
  const Wide largest = std::ldexp(Wide(1), std::numeric_limits<T>::max_exponent - 1);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Wide value = static_cast<Wide>(values[k]);
    const Wide finite = std::min(std::max(value, -largest), largest);
    const Wide quotient = static_cast<Wide>(T(finite + finite / n)) - finite;
    parts[0][k] = T(value - (n - 1) * quotient);
    // Only zeros that are all negative add up to a negative one.
    const T other = T(std::copysign(quotient, value));
    for (std::size_t i = 1; i < parts.size(); ++i) parts[i][k] = other;
  }
}

}  // namespace

RecycledVector<Tensor> shares(const Tensor& value, std::span<const Device> devices) {
  if (devices.size() == 1) return {value.to(devices[0])};
  const Device host(DeviceKind::cpu, 0);
  RecycledVector<Tensor> parts;
  parts.reserve(devices.size());
  for (const Device& device : devices)
    parts.push_back(
        Tensor::empty(value.shape(), value.dtype(), device.kind() == DeviceKind::cpu ? device : host));
  const Tensor whole = value.to(host).contiguous();
  dispatch(value.dtype(), [&]<class T>() {
    RecycledVector<T*> data;
    for (const Tensor& part : parts) data.push_back(static_cast<T*>(part.data()));
    share(std::span(static_cast<const T*>(whole.view().data), static_cast<std::size_t>(whole.size())),
          std::span<T* const>(data));
  });
  for (std::size_t i = 0; i < devices.size(); ++i) parts[i] = parts[i].to(devices[i]);
  return parts;
}

}  // namespace lockstep::detail
