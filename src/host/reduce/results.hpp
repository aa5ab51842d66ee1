#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <lockstep/backend/kernel_backend.hpp>

#include "arithmetic/operators.hpp"
#include "arithmetic/scaled_sum.hpp"
#include "arithmetic/wide_quotient.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {

/// Writes results, still in their accumulator type, to the output; sums of Cs divided.
template <class C>
class Results {
  using A = accumulator_t<C>;

 public:
  Results(const TensorView& out, const TensorView& in, const backend::AxisExtents& extents, double divisor)
      : out_(out), in_(in), extents_(extents), divisor_(divisor) {}

  void write(std::int64_t begin, const A* values, std::int64_t n) {
    auto* const to =
        static_cast<std::byte*>(out_.data) + begin * static_cast<std::int64_t>(size_of(out_.dtype));
    if constexpr (std::same_as<C, float>) {
      if (out_.dtype == DType::f64) return write_quotients<double>(begin, values, to, n);
    }
    if (divisor_ == 1) return narrow(values, to, out_.dtype, 1, n);
    write_quotients<arithmetic::quotient_t<A>>(begin, values, to, n);
  }

 private:
  template <class Q>
  void write_quotients(std::int64_t begin, const A* values, std::byte* to, std::int64_t n) {
    const Q divisor = static_cast<Q>(divisor_);
    Q quotients[kTile];
    for (std::int64_t done = 0; done < n; done += kTile) {
      const std::int64_t count = std::min(kTile, n - done);
      for (std::int64_t i = 0; i < count; ++i) quotients[i] = static_cast<Q>(values[done + i]) / divisor;
      if constexpr (std::integral<C>) {
        if (are_wide())
          for (std::int64_t i = 0; i < count; ++i)
            quotients[i] = arithmetic::wide_quotient(values[done + i], divisor);
      }
      if constexpr (std::floating_point<C>) {
        for (std::int64_t i = 0; i < count; ++i)
          if (!arithmetic::is_finite(quotients[i]))
            quotients[i] = static_cast<Q>(quotient_of_large(begin + done + i));
      }
      narrow(quotients, to + done * static_cast<std::int64_t>(size_of(out_.dtype)), out_.dtype, 1, count);
    }
  }

  /// Whether sums may be integers that a double does not hold.
  bool are_wide() const {
    constexpr auto kLargest = static_cast<double>(std::numeric_limits<C>::max());
    return std::integral<C> && static_cast<double>(extents_.axis) * kLargest > 0x1p53;
  }

  /// The quotient of a sum that is not finite, from its elements.
  double quotient_of_large(std::int64_t result) const {
    const auto [outer, axis, inner] = extents_;
    const std::int64_t first = result / inner * axis * inner + result % inner;
    const TileReader<C> reader(in_);
    arithmetic::ScaledSum<double> sum(0x1p63);
    for (std::int64_t i = 0; i < axis; ++i) {
      C scratch;
      sum.add(*reader.read(first + i * inner, 1, &scratch));
    }
    return sum.over(divisor_);
  }

  const TensorView& out_;
  const TensorView& in_;
  const backend::AxisExtents& extents_;
  double divisor_;
};

}  // namespace lockstep::host
