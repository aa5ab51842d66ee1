#pragma once

#include <cstdint>
#include <span>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

namespace lockstep::host {

/// Combines `count` elements of all sources, in their order and by the arithmetic of
/// backend::CommunicatorBackend, and writes the result to all destinations that are not null. A destination
/// may be exactly a source.
/// @param streaming  whether to use streaming stores, except where the destination is a source.
void reduce_range(ReduceOp op, DType dtype, std::int64_t count, std::span<const void* const> sources,
                  std::span<void* const> destinations, bool streaming);

}  // namespace lockstep::host
