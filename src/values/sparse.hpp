#pragma once

#include <span>
#include <string_view>

#include <lockstep/reduce_op.hpp>
#include <lockstep/values/indexed_slices.hpp>

namespace lockstep::detail {

/// @throws InvalidArgument  op is neither sum nor mean, booleans, or the slices do not fit together.
void check_sparse_reduction(ReduceOp op, const IndexedSlices& slices);

/// t / divisor as a mean: in float or double, rounded once to reduced_dtype(mean).
Tensor divided(const Tensor& t, double divisor);

/// Whether parts[r][k] over all r can be concatenated along `axis`.
/// @throws InvalidArgument  scalars, axis out of range, ranks or other extents differ. @throws
/// CollectiveMismatch  dtypes or counts differ.
void check_gather(std::span<const std::span<const TensorView>> parts, std::int64_t axis,
                  std::string_view what);

}  // namespace lockstep::detail
