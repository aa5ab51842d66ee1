#pragma once

#include <iosfwd>
#include <string_view>

#include <lockstep/dtype.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// An operator that combines values. `mean` divides the sum by the number of contributions: of replicas
/// without an axis, of elements of the global batch with an axis.
enum class ReduceOp { sum, mean, min, max, product };

/// @return the lower-case name, e.g. "sum".
[[nodiscard]] std::string_view name(ReduceOp op);

/// Parses an operator's name, e.g. "SUM"; case does not matter.
/// @throws InvalidArgument  the name is unknown; the message lists the known ones.
[[nodiscard]] ReduceOp parse_reduce_op(std::string_view text);

/// The dtype of a reduction of `dtype` elements: `dtype` itself, except for the mean of integers, which is a
/// true division and gives f32 for 8- and 16-bit types and f64 for wider ones. It is the same for every
/// function and backend.
/// @throws InvalidArgument  `op` is not defined on `dtype` (booleans).
[[nodiscard]] DType reduced_dtype(ReduceOp op, DType dtype);

std::ostream& operator<<(std::ostream& out, ReduceOp op);

}  // namespace lockstep

#pragma GCC visibility pop
