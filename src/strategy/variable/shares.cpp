#include "strategy/variable/shares.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

namespace lockstep::detail {

namespace {

/// Sets parts[i][k], which is number first + i of n parts of values[k], for all i.
template <std::integral T>
void share(std::span<const T> values, std::span<T* const> parts, std::int64_t first, std::int64_t n) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    const Wide quotient = static_cast<Wide>(values[k]) / static_cast<Wide>(n);
    const auto rest = static_cast<std::int64_t>(values[k] - quotient * static_cast<Wide>(n));
    std::int64_t number = first;
    for (T* const part : parts) {
      part[k] =
          static_cast<T>(quotient + static_cast<Wide>(number < rest) - static_cast<Wide>(number < -rest));
      ++number;
    }
  }
}

/// Numbers of one unit add up without rounding. A sum of the value's magnitude, or less than twice that, is
/// in units of the value's last place, or in larger ones: so value + quotient - value is the quotient in
/// them.
template <class T>
requires(!std::integral<T>) void share(std::span<const T> values, std::span<T* const> parts,
                                       std::int64_t first, std::int64_t num_parts) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto n = static_cast<Wide>(num_parts);
  // The largest power of two has the unit of all above it; twice it may be infinite, as the value may.
  const Wide largest = std::ldexp(Wide(1), std::numeric_limits<T>::max_exponent - 1);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Wide value = static_cast<Wide>(values[k]);
    const Wide finite = std::min(std::max(value, -largest), largest);
    const Wide quotient = static_cast<Wide>(T(finite + finite / n)) - finite;
    // Only zeros that are all negative add up to a negative one.
    for (T* const part : parts) part[k] = T(std::copysign(quotient, value));
    if (first == 0) parts[0][k] = T(value - (n - 1) * quotient);
  }
}

}  // namespace

RecycledVector<Tensor> shares(const Tensor& value, std::span<const Device> devices, int first,
                              int num_parts) {
  if (num_parts == 1) return {value.to(devices[0])};
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
          std::span<T* const>(data), first, num_parts);
  });
  for (std::size_t i = 0; i < devices.size(); ++i) parts[i] = parts[i].to(devices[i]);
  return parts;
}

}  // namespace lockstep::detail
