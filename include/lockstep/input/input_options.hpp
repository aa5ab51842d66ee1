#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <vector>

#include <lockstep/input/auto_shard_policy.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// How many datasets a function makes: one for each worker, or one for each replica.
enum class InputReplicationMode : std::uint8_t { per_worker, per_replica };

[[nodiscard]] std::string_view name(InputReplicationMode mode);
std::ostream& operator<<(std::ostream& out, InputReplicationMode mode);

/// How many of a global batch's B rows each of N replicas gets, in row order.
enum class BatchSplit : std::uint8_t {
  ceiling,   ///< ceil(B / N) each while they last: the last replicas of a small batch get fewer, or none.
  balanced,  ///< Numbers that differ by one at most; the first replicas get more.
  weighted,  ///< In proportion to InputOptions::batch_weights, for devices that are not equally fast.
};

[[nodiscard]] std::string_view name(BatchSplit split);
std::ostream& operator<<(std::ostream& out, BatchSplit split);

/// How a strategy takes its input.
struct InputOptions {
  /// Whether components are copied to their replica's device; false: they stay on the host.
  bool fetch_to_device = true;
  /// per_replica: only for distribute_datasets_from_function of a MirroredStrategy.
  InputReplicationMode replication_mode = InputReplicationMode::per_worker;
  /// Whether each replica's dataset lives on its device. Needs per_replica, and fetch_to_device = false.
  bool place_dataset_on_device = false;
  /// How many elements per replica are kept ready ahead of `next`, by a thread of each pass's own, which then
  /// makes one more; 0: none, and no thread. At least 0.
  int per_replica_buffer_size = 1;
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::automatic;
  /// Of distribute_dataset. `ceiling`, as the default, gives way to balanced_batch_sizes where the policy
  /// resolves to `file`, `off` or `hint` and the batch size is known.
  BatchSplit batch_split = BatchSplit::ceiling;
  /// With BatchSplit::weighted, one for each replica: finite, at least 0, not all 0. Rows are dealt by the
  /// largest remainder (Hamilton's method), of equal remainders to the first replica; none to weight 0.
  std::vector<double> batch_weights = {};
};

}  // namespace lockstep

#pragma GCC visibility pop
