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

/// Floats as signed integers of their size that are ordered as they are, every NaN above (for max) or below
/// (for min) all others: what lets NCCL, whose minimum and maximum drop NaN, keep it. Same place allowed.
/// @param dtype  f32 or f64.
void encode_ordered(const Place& place, ReduceOp op, DType dtype, std::int64_t count, const void* floats,
                    void* integers);
/// Turns the integers back into floats.
void decode_ordered(const Place& place, DType dtype, std::int64_t count, void* values);

}  // namespace lockstep::cuda
