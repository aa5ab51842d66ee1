#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device.hpp>
#include <lockstep/strategy/logical_device.hpp>
#include <lockstep/stream.hpp>

#include "collectives/rendezvous.hpp"

namespace lockstep::detail {

class WorkerGroup;

/// One logical device of every local replica: the devices that a collective runs over.
class ReplicaGroup {
 public:
  /// @param workers  whose replicas communicate, too; outlives this; null: this process's alone. @param
  /// member  static: the noun for a rank in messages.
  ReplicaGroup(std::vector<Device> devices, const CommunicationOptions& options, WorkerGroup* workers,
               std::string_view member = "replica");

  /// One per local replica.
  const std::vector<Device>& devices() const noexcept { return devices_; }
  const std::vector<backend::DeviceBackend*>& device_backends() const noexcept { return device_backends_; }
  Communicator& communicator() noexcept { return communicator_; }
  const Communicator& communicator() const noexcept { return communicator_; }
  /// The rank of local replica 0, which is its id.
  int first_rank() const noexcept { return first_rank_; }
  int num_ranks() const noexcept { return num_ranks_; }

  /// For messages: "replica 2 (CPU:1)".
  std::string label(int rank) const;
  /// Ends waiting and later collectives. Any thread.
  void abort(const std::string& cause) noexcept { communicator_.abort(cause); }
  /// Local replica i meets all replicas, also those of other workers: Communicator::meet.
  void meet(int i, const Arrival& arrival, const Rendezvous::Check& check,
            std::chrono::milliseconds timeout) {
    const int rank = first_rank_ + i;
    communicator_.meet({&rank, 1}, {&arrival, 1}, check, timeout);
  }
  /// The same for all local replicas, on this thread. @param tensors  one of each replica, or none.
  void meet_all(const Arrival& arrival, const Rendezvous::Check& check, std::chrono::milliseconds timeout,
                std::span<const TensorView> tensors = {});
  /// The tensors of a rank at local replica i's last meeting.
  std::span<const TensorView> tensors_at_meeting(int rank, int i) const {
    return communicator_.tensors_at_meeting(rank, i);
  }
  Rendezvous& rendezvous() noexcept { return communicator_.rendezvous(); }
  /// backend::CommunicatorBackend::launch_graphs.
  void launch_graphs(FunctionRef<void()> launch) { communicator_.launch_graphs(launch); }
  /// Communicator::watch.
  DeviceWatch* watch() noexcept { return communicator_.watch(); }
  /// The stream of started reductions on replica i's device; made at its first use, by the replica's thread
  /// or, between runs, by the thread that holds the strategy's lock.
  StreamRef communication_stream(int i);
  /// Those streams that have been made; empty elements for the others.
  std::span<const std::optional<Stream>> communication_streams() const noexcept {
    return communication_streams_;
  }

 private:
  std::vector<Device> devices_;
  std::vector<backend::DeviceBackend*> device_backends_;
  Communicator communicator_;
  int first_rank_, num_ranks_;
  std::vector<std::optional<Stream>> communication_streams_;
};

/// A strategy's local replicas: a group for each logical device, and the place where the replicas meet,
/// whatever their logical devices. At least one group, of at least one replica.
class ReplicaGroups {
 public:
  /// @param logical_devices  [num_logical_devices][num_replicas].
  /// @param workers  as ReplicaGroup's.
  ReplicaGroups(const Strategy& strategy, const std::vector<std::vector<Device>>& logical_devices,
                const CommunicationOptions& options, WorkerGroup* workers);

  int num_local_replicas() const noexcept { return static_cast<int>(groups_.front().devices().size()); }
  /// Over all workers.
  int num_replicas() const noexcept { return groups_.front().num_ranks(); }
  /// The id of local replica 0.
  int first_replica() const noexcept { return groups_.front().first_rank(); }
  std::size_t size() const noexcept { return groups_.size(); }
  ReplicaGroup& operator[](std::size_t logical_device) noexcept { return groups_[logical_device]; }
  ReplicaGroup& front() noexcept { return groups_.front(); }
  const ReplicaGroup& front() const noexcept { return groups_.front(); }
  auto begin() noexcept { return groups_.begin(); }
  auto end() noexcept { return groups_.end(); }
  auto begin() const noexcept { return groups_.begin(); }
  auto end() const noexcept { return groups_.end(); }

  /// The logical device that the calling thread's guards name, and its group.
  std::size_t current_index() const noexcept {
    return groups_.size() == 1 ? 0 : static_cast<std::size_t>(LogicalDeviceScope::current(strategy_));
  }
  ReplicaGroup& current() noexcept { return groups_[current_index()]; }
  const ReplicaGroup& current() const noexcept { return groups_[current_index()]; }
  /// The logical device with exactly these devices, one for each replica; none: -1.
  int find(std::span<const Device> devices) const noexcept;

  Rendezvous& rendezvous() noexcept { return rendezvous_ ? *rendezvous_ : groups_.front().rendezvous(); }
  /// In a replica's function, before a collective: the current logical device's group. All replicas agree on
  /// it, so that they will meet in that group's rendezvous, too.
  /// @param operation  static. @throws CollectiveMismatch  they are on different ones: names both.
  ReplicaGroup& agree_on_current(int replica, std::string_view operation, std::chrono::milliseconds timeout);

  /// What this process's replicas did last. Also while the strategy is being made. @param strategy  its name.
  Report report(std::string_view strategy) const;

  /// Calls act(rendezvous) for the groups' and the replicas' own.
  template <class Act>
  void for_each_rendezvous(const Act& act) {
    for (ReplicaGroup& group : groups_) act(group.rendezvous());
    if (rendezvous_) act(*rendezvous_);
  }

 private:
  const Strategy& strategy_;
  std::vector<ReplicaGroup> groups_;
  const std::unique_ptr<Rendezvous> rendezvous_;  // null: the only group's
};

/// The backends of these devices, in their order.
std::vector<backend::DeviceBackend*> open_all(const std::vector<Device>& devices);

}  // namespace lockstep::detail
