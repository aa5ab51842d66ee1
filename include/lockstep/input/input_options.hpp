#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <vector>

#include <lockstep/input/auto_shard_policy.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// The number of datasets that a function makes: one for each worker, or one for each replica.
enum class InputReplicationMode : std::uint8_t { per_worker, per_replica };

[[nodiscard]] std::string_view name(InputReplicationMode mode);
std::ostream& operator<<(std::ostream& out, InputReplicationMode mode);

/// The way in which N replicas share a global batch's B rows, in row order.
enum class BatchSplit : std::uint8_t {
  ceiling,   ///< ceil(B / N) each while rows last; the last replicas of a small batch get fewer, or none.
  balanced,  ///< Sizes that differ by at most one; the first replicas get more.
  weighted,  ///< In proportion to InputOptions::batch_weights, for devices of unequal speed.
};

[[nodiscard]] std::string_view name(BatchSplit split);
std::ostream& operator<<(std::ostream& out, BatchSplit split);

/// Options with which a strategy takes its input.
struct InputOptions {
  /// Whether components are copied to their replica's device; if not, they stay on the host.
  bool fetch_to_device = true;
  /// per_replica works only for distribute_datasets_from_function of a MirroredStrategy.
  InputReplicationMode replication_mode = InputReplicationMode::per_worker;
  /// Whether each replica's dataset lives on its device. It needs per_replica and fetch_to_device = false.
  bool place_dataset_on_device = false;
  /// The number of elements per replica that a thread of each pass keeps ready ahead of `next` before it
  /// makes one more; 0: no thread, nothing is made ahead. At least 0.
  int per_replica_buffer_size = 1;
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::automatic;
  /// Used by distribute_dataset. The default `ceiling` is replaced by balanced_batch_sizes if the policy
  /// resolves to `file`, `off` or `hint` and the batch size is known.
  BatchSplit batch_split = BatchSplit::ceiling;
  /// Used with BatchSplit::weighted, one for each replica: finite, at least 0, not all 0. Rows are
  /// apportioned by the largest remainder (Hamilton's method); among equal remainders the first replica wins,
  /// and weight 0 gets no rows.
  std::vector<double> batch_weights = {};
};

}  // namespace lockstep

#pragma GCC visibility pop
