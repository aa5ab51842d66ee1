#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

#include <lockstep/input/auto_shard_policy.hpp>

namespace lockstep {

/// How many datasets a function makes: one for each worker, or one for each replica.
enum class InputReplicationMode : std::uint8_t { per_worker, per_replica };

std::string_view name(InputReplicationMode mode);
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
