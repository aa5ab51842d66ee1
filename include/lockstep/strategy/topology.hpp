#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/device.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// The places of the devices of one or several tasks in a mesh: a grid of any rank, whose last axis tells
/// apart what is closest, as the cores of one chip. As tf.tpu.experimental.Topology, but for any kind of
/// device.
///
/// A value; const calls may run at the same time. No device is opened. Places of the mesh may be without a
/// device.
class Topology {
 public:
  /// @param mesh_shape   places on each axis, each at least 1; one axis or more.
  /// @param coordinates  [num_tasks][num_devices_per_task][mesh_rank]: where each task's devices lie, counted
  ///                     from 0 on each axis.
  /// @throws InvalidArgument  an entry of mesh_shape is below 1 or there is none; coordinates have another
  /// form, or no device; a coordinate is negative or outside the mesh; two devices lie at one place.
  Topology(std::vector<int> mesh_shape, std::vector<std::vector<std::vector<int>>> coordinates,
           DeviceKind device_kind = DeviceKind::gpu);

  /// Places on each axis; of a temporary topology, a copy of them.
  [[nodiscard]] const std::vector<int>& mesh_shape() const& noexcept { return mesh_shape_; }
  [[nodiscard]] std::vector<int> mesh_shape() const&&;
  [[nodiscard]] int mesh_rank() const noexcept { return static_cast<int>(mesh_shape_.size()); }
  [[nodiscard]] DeviceKind device_kind() const noexcept { return device_kind_; }
  [[nodiscard]] int num_tasks() const noexcept { return static_cast<int>(coordinates_.size()); }
  [[nodiscard]] int num_devices_per_task() const noexcept {
    return coordinates_.empty() ? 0 : static_cast<int>(coordinates_.front().size());
  }
  /// [num_tasks][num_devices_per_task][mesh_rank], as given; of a temporary topology, a copy of it.
  [[nodiscard]] const std::vector<std::vector<std::vector<int>>>& coordinates() const& noexcept {
    return coordinates_;
  }
  [[nodiscard]] std::vector<std::vector<std::vector<int>>> coordinates() const&&;
  /// Whether some places of the mesh are without a device.
  [[nodiscard]] bool has_missing_devices() const noexcept;
  /// Whether there is a device at that place.
  [[nodiscard]] bool contains(const std::vector<int>& coordinates) const;

  /// The device at a place, number k of task T: /task:T/device:KIND:k, and with a job
  /// /job:J/task:T/device:KIND:k.
  /// @throws InvalidArgument  there is no device at that place, or `job` is not the name of a job.
  [[nodiscard]] Device device(const std::vector<int>& coordinates, std::string_view job = {}) const;
  /// The host of that device: CPU:0 of its task. @throws as device.
  [[nodiscard]] Device host_device(const std::vector<int>& coordinates, std::string_view job = {}) const;

  friend bool operator==(const Topology& a, const Topology& b);

 private:
  std::pair<int, int> place(const std::vector<int>& coordinates) const;

  std::vector<int> mesh_shape_;
  std::vector<std::vector<std::vector<int>>> coordinates_;
  DeviceKind device_kind_;
  std::map<std::vector<int>, std::pair<int, int>> places_;  // task and its device, by coordinates
};

}  // namespace lockstep

#pragma GCC visibility pop
