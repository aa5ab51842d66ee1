#pragma once

#include <cstdint>
#include <span>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

/// A reduction in parts: what the first ranks have is combined, then what the next have is added to it, and
/// so on, and the last part is finished. Results have the bits of reduce_range.
namespace lockstep::host {

/// The type in which reduce_range combines elements: f32 for narrow floats.
DType partial_dtype(DType dtype);

/// partial := partial op sources[0] op … For the first ranks: sources[0] op …
/// @param dtype  of the sources; `partial` has partial_dtype(dtype).
void reduce_partially(ReduceOp op, DType dtype, std::int64_t count, bool is_first,
                      std::span<const void* const> sources, void* partial);

/// Writes what all ranks' elements give, once they are combined in `partial`, which it uses up.
/// @return false: a sum for a mean is not finite. Only reduce_range, which has all ranks' elements, can tell
/// the mean.
[[nodiscard]] bool finish_reduction(ReduceOp op, DType dtype, std::int64_t count, int num_ranks,
                                    void* partial, void* result);

}  // namespace lockstep::host
