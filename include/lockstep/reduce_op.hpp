#pragma once

#include <iosfwd>
#include <string_view>

#include <lockstep/dtype.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// How values are combined. `mean` is the sum divided by the number of contributions: replicas without an
/// axis, elements of the global batch with one.
enum class ReduceOp { sum, mean, min, max, product };

/// @return the lower-case name, e.g. "sum".
[[nodiscard]] std::string_view name(ReduceOp op);

/// Parses an operator's name without regard to case, e.g. "SUM".
/// @throws InvalidArgument  the name is unknown; the message lists the known ones.
[[nodiscard]] ReduceOp parse_reduce_op(std::string_view text);

/// The dtype a reduction of `dtype` elements gives: `dtype`, but for the mean of integers, which is a true
/// division: f32 for the 8- and 16-bit types, f64 for wider ones. The same at every entry point and on every
/// backend.
/// @throws InvalidArgument  `op` is not defined on `dtype` (booleans).
[[nodiscard]] DType reduced_dtype(ReduceOp op, DType dtype);

std::ostream& operator<<(std::ostream& out, ReduceOp op);

}  // namespace lockstep

#pragma GCC visibility pop
