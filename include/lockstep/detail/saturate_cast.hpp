#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include <lockstep/dtype.hpp>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// The library's only conversion between element types: a C++ cast, except that floating to integer saturates
/// and takes NaN to 0 (C++ leaves both undefined), and anything to boolean is "not zero" (so NaN is true).
/// Conversion to a small float rounds once.
template <Element To, Element From>
constexpr To saturate_cast(From value) {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (std::same_as<To, bool>) {
    return value != From(0);
  } else if constexpr (std::integral<To> && !std::integral<From>) {
    // Selections only, so that loops vectorise: brought into range first, the cast is always defined.
    using Wide = std::conditional_t<std::same_as<From, double>, double, float>;
    constexpr Wide kLowest = static_cast<Wide>(std::numeric_limits<To>::lowest());
    constexpr Wide kEnd = static_cast<Wide>(std::numeric_limits<To>::max() / 2 + 1) * 2;  // 2^digits, exact
    const Wide wide = value;
    const Wide inside = wide >= kLowest && wide < kEnd ? wide : Wide(0);
    const To truncated = static_cast<To>(inside);
    const To low = wide < kLowest ? std::numeric_limits<To>::lowest() : truncated;
    return wide >= kEnd ? std::numeric_limits<To>::max() : low;
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace lockstep::detail

#pragma GCC visibility pop
