#pragma once

#include <cstdint>
#include <span>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#include "kernels/launch.hpp"

namespace lockstep::cuda {

/// The most ranks that the kernels below take.
inline constexpr std::size_t kMostRanks = 64;

/// Combines `count` elements of all sources, in their order and as backend::CommunicatorBackend says, and
/// writes the result to all destinations, each element read and written once. A destination may be exactly a
/// source.
void combine(const Place& place, ReduceOp op, DType dtype, std::int64_t count,
             std::span<const void* const> sources, std::span<void* const> destinations);

/// Copies `size_bytes` to all destinations, each byte read once.
void copy_to_all(const Place& place, std::int64_t size_bytes, const void* source,
                 std::span<void* const> destinations);

}  // namespace lockstep::cuda
