#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep {

/// The part of the input for which a dataset is made: one of `num_input_pipelines` (one per worker), which
/// together feed `num_replicas_in_sync` replicas. A value.
class InputContext {
 public:
  /// @throws InvalidArgument  there are no pipelines or no replicas, or the id is not in [0,
  /// num_input_pipelines).
  explicit InputContext(int num_input_pipelines = 1, int input_pipeline_id = 0, int num_replicas_in_sync = 1);

  [[nodiscard]] int num_input_pipelines() const noexcept { return num_pipelines_; }
  [[nodiscard]] int input_pipeline_id() const noexcept { return pipeline_id_; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return num_replicas_; }

  /// The rows of a global batch that each replica gets.
  /// @throws InvalidArgument  the batch size is negative or not divisible by the number of replicas.
  [[nodiscard]] std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;

 private:
  int num_pipelines_;
  int pipeline_id_;
  int num_replicas_;
};

}  // namespace lockstep

#pragma GCC visibility pop
