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

/// Writes elements [begin, end) of what `rank` contributes to `data`, which holds all elements from 0 on.
void fill_contribution(const Pattern& pattern, int rank, void* data, std::int64_t begin, std::int64_t end);

/// @return how many of elements [begin, end), over all `results`, are not the reduction of all ranks'
/// contributions.
std::int64_t count_wrong(const Pattern& pattern, std::span<const void* const> results, std::int64_t begin,
                         std::int64_t end);

}  // namespace lockstep::bench
