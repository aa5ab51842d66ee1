#pragma once

#include <string_view>
#include <vector>

#include <lockstep/device.hpp>
#include <lockstep/strategy/topology.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// The rules by which DeviceAssignment::build places replicas. Lists have one entry for each axis of the
/// mesh, or none, which stands for 1 on every axis.
struct AssignmentOptions {
  std::vector<int> computation_shape{};   ///< Logical cores of a replica on each axis.
  std::vector<int> computation_stride{};  ///< Places from one logical core to the next on each axis.
  int num_replicas = 1;
};

/// Which devices of a topology are the logical cores of which replica. As
/// tf.tpu.experimental.DeviceAssignment.
///
/// A value, which keeps a copy of its topology; const calls may run at the same time.
class DeviceAssignment {
 public:
  /// @param core_assignment  [num_replicas][num_cores_per_replica][mesh_rank]: coordinates in the mesh.
  /// @throws InvalidArgument  core_assignment has another form, or nothing in it; there is no device at a
  /// place; a device is there twice.
  DeviceAssignment(Topology topology, std::vector<std::vector<std::vector<int>>> core_assignment);

  /// Places replicas in blocks of computation_shape devices, computation_stride apart, in a grid as close to
  /// a cube as fits: replicas are numbered along the last axis first, then along axis 0, 1 and so on; logical
  /// cores in row-major order. The rules are those of TensorFlow's device_assignment
  /// (tensorflow/python/tpu/device_assignment.py), without its ring orders.
  ///
  /// If the topology misses devices, the others are dealt out in the order of tasks instead.
  ///
  /// @throws InvalidArgument  a list's length is not the mesh's rank, or an entry is below 1; shape × stride
  /// exceeds the mesh on an axis; num_replicas is below 1, or more than fit; devices are missing, and there
  /// is a stride or there are too few.
  [[nodiscard]] static DeviceAssignment build(Topology topology, const AssignmentOptions& options = {});

  /// For a temporary assignment, a copy.
  [[nodiscard]] const Topology& topology() const& noexcept { return topology_; }
  [[nodiscard]] Topology topology() const&&;
  [[nodiscard]] int num_replicas() const noexcept { return static_cast<int>(core_assignment_.size()); }
  [[nodiscard]] int num_cores_per_replica() const noexcept {
    return core_assignment_.empty() ? 0 : static_cast<int>(core_assignment_.front().size());
  }

  /// The place of a replica's logical core in the mesh: [mesh_rank]. Valid as long as this; of a temporary
  /// assignment, a copy of it.
  /// @throws InvalidArgument  there is no such replica or logical core.
  [[nodiscard]] const std::vector<int>& coordinates(int replica, int logical_core) const&;
  [[nodiscard]] std::vector<int> coordinates(int replica, int logical_core) const&&;
  /// /task:T/device:KIND:k, and with a job /job:J/task:T/device:KIND:k.
  /// @throws InvalidArgument  as coordinates, or `job` is not the name of a job.
  [[nodiscard]] Device device(int replica = 0, int logical_core = 0, std::string_view job = {}) const {
    return topology_.device(coordinates(replica, logical_core), job);
  }
  /// CPU:0 of the device's task. @throws as device.
  [[nodiscard]] Device host_device(int replica = 0, int logical_core = 0, std::string_view job = {}) const {
    return topology_.host_device(coordinates(replica, logical_core), job);
  }
  /// The replicas whose logical core of that number is a device of that task, sorted.
  /// @throws InvalidArgument  there are none, or no such logical core.
  [[nodiscard]] std::vector<int> lookup_replicas(int task, int logical_core) const;

  friend bool operator==(const DeviceAssignment& a, const DeviceAssignment& b);

 private:
  Topology topology_;
  std::vector<std::vector<std::vector<int>>> core_assignment_;
};

}  // namespace lockstep

#pragma GCC visibility pop
