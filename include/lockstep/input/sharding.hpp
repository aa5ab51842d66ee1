#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/input/input_context.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// The sizes of the slices into which one worker cuts its rows, one slice for each of its replicas in turn,
/// so that every step of all workers has `global_batch` rows and no two slices of a step differ by more than
/// one row. The sizes apply in order, then from the start again. (TensorFlow's batch_sizes_for_worker.)
///
/// @return num_replicas_in_sync sizes. 7 rows, 2 workers with 2 replicas each: worker 0 2 2 2 1, worker 1 2 1
/// 2 2.
/// @throws InvalidArgument  global_batch < 0, or the number of pipelines does not divide the number of
/// replicas.
[[nodiscard]] std::vector<std::int64_t> balanced_batch_sizes(std::int64_t global_batch,
                                                             const InputContext& context);

}  // namespace lockstep

#pragma GCC visibility pop
