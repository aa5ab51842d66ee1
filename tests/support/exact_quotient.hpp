#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace lockstep::test {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

/// sum / divisor, correctly rounded: by long division in integers. @pre |sum| < 2^100, 0 < divisor < 2^53
inline double exact_quotient(Int128 sum, std::int64_t divisor) {
  const UInt128 size = static_cast<UInt128>(sum < 0 ? -sum : sum);
  const auto by = static_cast<UInt128>(divisor);
  UInt128 quotient = size / by, rest = size % by;
  // Sixty bits at least, the last of which says whether more follow: a double has 53.
  int exponent = 0;
  while (quotient >> 60 == 0 && exponent > -200) {
    rest *= 2;
    quotient = quotient * 2 + (rest >= by ? 1 : 0);
    if (rest >= by) rest -= by;
    --exponent;
  }
  bool is_exact = rest == 0;
  while (quotient >> 62 != 0) {
    is_exact = is_exact && (quotient & 1) == 0;
    quotient >>= 1;
    ++exponent;
  }
  const double value =
      std::ldexp(static_cast<double>(static_cast<std::uint64_t>(quotient | (is_exact ? 0 : 1))), exponent);
  return sum < 0 ? -value : value;
}

}  // namespace lockstep::test
