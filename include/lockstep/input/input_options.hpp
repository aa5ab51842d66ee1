#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace lockstep {

/// How a dataset is shared out over workers. It also decides how `distribute_dataset` splits a batch over
/// replicas: by balanced sizes (balanced_batch_sizes) where data is read by file or by everybody and the
/// batch size is known, else by ceiling slices of each batch as it comes.
enum class AutoShardPolicy : std::int8_t {
  off = -1,   ///< Every worker reads everything.
  automatic,  ///< By file where the dataset reads files, else by data.
  file,       ///< Each worker reads its share of the files.
  data,       ///< Every worker reads everything and keeps its share.
  hint,       ///< The dataset has been sharded by the user.
};

/// How many datasets a function makes: one for each worker, or one for each replica.
enum class InputReplicationMode : std::uint8_t { per_worker, per_replica };

std::string_view name(AutoShardPolicy policy);
std::string_view name(InputReplicationMode mode);
std::ostream& operator<<(std::ostream& out, AutoShardPolicy policy);
std::ostream& operator<<(std::ostream& out, InputReplicationMode mode);

/// How a strategy takes its input.
struct InputOptions {
  /// Whether components are copied to their replica's device; false: they stay on the host.
  bool fetch_to_device = true;
  /// per_replica: only for distribute_datasets_from_function of a MirroredStrategy.
  InputReplicationMode replication_mode = InputReplicationMode::per_worker;
  /// Whether each replica's dataset lives on its device. Needs per_replica, and fetch_to_device = false.
  bool place_dataset_on_device = false;
  /// How many elements per replica may be made ready ahead of `next`; 0: none. At least 0.
  int per_replica_buffer_size = 1;
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::automatic;
};

}  // namespace lockstep
