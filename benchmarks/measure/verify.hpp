#pragma once

#include <cstdint>
#include <span>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

namespace lockstep::bench {

/// Data whose reduction is exactly known: every contribution, every partial result in rank order, and the
/// result are representable in every dtype, f8 included, for any number of ranks. (The idea is nccl-tests'
/// verifiable.h.)
struct Pattern {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;  ///< mean needs a floating dtype.
  int num_ranks = 1;
  std::uint64_t seed = 0;  ///< Another one for each pass.
};

/// Writes elements [begin, end) of `rank`'s contribution to a reduction to `data`.
void fill_contribution(const Pattern& pattern, int rank, void* data, std::int64_t begin, std::int64_t end);

/// @param results  elements [begin, end) each.
/// @return how many of them, over all `results`, are not the reduction of all ranks' contributions.
std::int64_t count_wrong(const Pattern& pattern, std::span<const void* const> results, std::int64_t begin,
                         std::int64_t end);

/// Writes elements [begin, end) of `rank`'s message to `data`, for collectives that only move data. `op` and
/// `num_ranks` do not matter.
void fill_message(const Pattern& pattern, int rank, void* data, std::int64_t begin, std::int64_t end);

/// @param results  elements [begin, end) each.
/// @return how many of them, over all `results`, differ from `rank`'s message.
std::int64_t count_wrong_copies(const Pattern& pattern, int rank, std::span<const void* const> results,
                                std::int64_t begin, std::int64_t end);

}  // namespace lockstep::bench
