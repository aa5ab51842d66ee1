#pragma once

#include <cstdint>
#include <span>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#include "kernels/launch.hpp"

/// Work on many arrays at once, with a launch for each hundred or so of them. All arrays start anywhere.
namespace lockstep::cuda {

/// One array of all sources and destinations of a reduction: `count` elements.
struct Combination {
  std::int64_t count;
  std::span<const void* const> sources;
  std::span<void* const> destinations;
};

/// combine() for each of several, which have equal numbers of sources and of destinations.
void combine_all(const Place& place, ReduceOp op, DType dtype, std::span<const Combination> combinations);

/// An array that is copied to several places, none of which overlaps another, or it.
struct Spread {
  std::int64_t size_bytes;
  const void* source;
  std::span<void* const> destinations;  ///< Nulls are skipped.
};

/// copy_to_all() for each of several.
void copy_all(const Place& place, std::span<const Spread> spreads);

/// How elements change on their way.
enum class Conversion : std::uint8_t {
  none,      ///< They do not: from and to are one dtype.
  cast,      ///< An integer, as a C++ cast.
  multiply,  ///< A float, by the factor.
  divide,    ///< A float, by the factor.
  /// Floats to signed integers of the size of the float that they are computed in, which are ordered as they
  /// are, every NaN below all others: what lets NCCL, whose minimum drops NaN, keep it.
  to_ordered_for_min,
  to_ordered_for_max,  ///< The same, every NaN above all others.
  from_ordered,        ///< Back from these integers.
};

struct Conversions {
  Conversion conversion;
  DType from, to;  ///< For ordered integers the float that they are made of.
  bool operator==(const Conversions&) const = default;
};

/// `count` elements, from one array to another or to exactly itself.
struct Move {
  const void* from;
  void* to;
  std::int64_t count;
};

/// Makes all `moves`, rounding once. @param factor  in the type that floats are computed in, exact.
/// @pre The conversion is one that NCCL needs: see wire_dtype.
void convert_all(const Place& place, const Conversions& conversions, double factor,
                 std::span<const Move> moves);

}  // namespace lockstep::cuda
