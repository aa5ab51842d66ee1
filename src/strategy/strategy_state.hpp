#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/stream.hpp>

#include "strategy/replica_threads.hpp"

namespace lockstep::detail {

/// What a strategy owns.
struct StrategyState {
  /// @param parameter_devices  none: `devices`.
  StrategyState(Strategy& strategy, std::vector<Device> devices, std::vector<Device> parameter_devices,
                const CommunicationOptions& options);

  /// Waits for what was enqueued on the devices' streams.
  ~StrategyState();
  StrategyState(const StrategyState&) = delete;
  StrategyState& operator=(const StrategyState&) = delete;

  const std::vector<Device> devices;                           // one per local replica
  const std::vector<Device> parameter_devices;                 // of variables
  const std::vector<backend::DeviceBackend*> device_backends;  // of `devices`, then parameter_devices[0]'s
  const CommunicationOptions options;
  StrategyExtended extended;
  Communicator communicator;  // over `devices`; its rendezvous is where the replicas meet
  std::unique_ptr<CrossDeviceOps> cross_device_ops;          // null: the communicator
  std::vector<std::optional<Stream>> communication_streams;  // one per local replica
  ReplicaThreads threads;
  std::recursive_mutex
      mutex;  // serialises the strategy's calls; re-entered by merge functions, on the same thread
  std::mutex variables_mutex;                           // guards `variables`
  std::vector<std::weak_ptr<VariableState>> variables;  // those made in its scope
  mutable std::mutex failures_mutex;                    // guards `failures`
  std::vector<ReplicaFailure> failures;

  int num_replicas() const noexcept { return static_cast<int>(devices.size()); }
  /// The stream of started reductions on replica i's device; made at its first use, by the replica's thread
  /// or, between runs, by whoever holds `mutex`.
  StreamRef communication_stream(int i);
  /// Each device once: those of the replicas, then those of variables that have none.
  std::vector<Device> all_devices() const;

  /// Runs fn(i) for every replica at the same time. When one throws, those that wait for it are released.
  /// Rethrows the lowest replica's exception; one that is only the consequence of another's counts only if
  /// there is no other.
  /// @return every replica that threw by itself. @pre the calling thread holds `mutex`.
  void run_on_replicas(const std::function<void(int)>& fn, std::vector<ReplicaFailure>* failures);
  void run_on_replicas(const std::function<void(int)>& fn) { run_on_replicas(fn, nullptr); }

  /// Work of the library's own on every replica's device: on the replicas' threads where `bytes` are worth
  /// it, else on this one. fn must not wait for another replica.
  void for_each_replica(std::int64_t bytes, const std::function<void(int)>& fn);

  /// Combines one batch over replicas: inputs[i] are replica i's tensors, on its device and contiguous.
  /// @return root's results, or with root = -1 everybody's, indexed like the inputs.
  std::vector<std::vector<Tensor>> reduce(ReduceOp op, const std::vector<std::vector<Tensor>>& inputs,
                                          int root, const CommunicationOptions& call_options);
};

/// Beyond this many bytes a pass over memory outweighs waking the replicas' threads (about 10 µs, or 100 KiB
/// at 10 GB/s).
inline constexpr std::int64_t kThreadedBytes = 256 * 1024;

}  // namespace lockstep::detail
