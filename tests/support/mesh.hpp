#pragma once

#include <vector>

#include <lockstep/strategy/mesh_strategy.hpp>

#include "support/test_backend.hpp"

/// Meshes of the first devices of the backend under test.
namespace lockstep::test {

/// Logical device k of replica r is device r * num_logical_devices + k.
inline DeviceAssignment assignment(int num_replicas, int num_logical_devices) {
  const int num_devices = num_replicas * num_logical_devices;
  TestBackend::devices(num_devices);  // skips the test where they are not there
  std::vector<std::vector<int>> places;
  for (int i = 0; i < num_devices; ++i) places.push_back({i});
  return DeviceAssignment::build(Topology({num_devices}, {places}, TestBackend::kind()),
                                 {.computation_shape = {num_logical_devices}, .num_replicas = num_replicas});
}

class Mesh : public MeshStrategy {
 public:
  Mesh(int num_replicas, int num_logical_devices, const CommunicationOptions& options = {})
      : MeshStrategy(assignment(num_replicas, num_logical_devices), options) {}
};

inline float id_of(const ReplicaContext& ctx) { return static_cast<float>(ctx.replica_id_in_sync_group()); }

template <class Tensors>
std::vector<Device> devices_of(const Tensors& tensors) {
  std::vector<Device> devices;
  for (const Tensor& tensor : tensors) devices.push_back(tensor.device());
  return devices;
}

/// Logical device k of every replica.
inline std::vector<Device> logical_devices(const Strategy& mesh, int k) {
  std::vector<Device> devices;
  for (int r = 0; r < mesh.num_replicas_in_sync(); ++r)
    devices.push_back(TestBackend::device(r * mesh.num_logical_devices() + k));
  return devices;
}

}  // namespace lockstep::test
