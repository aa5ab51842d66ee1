#pragma once

#include <lockstep/reduce_op.hpp>
#include <lockstep/values/indexed_slices.hpp>

namespace lockstep::detail {

/// @throws InvalidArgument  op is neither sum nor mean, the dtype is boolean, or the slices do not fit
/// together.
void check_sparse_reduction(ReduceOp op, const IndexedSlices& slices);

}  // namespace lockstep::detail
