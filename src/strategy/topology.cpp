#include <lockstep/error.hpp>
#include <lockstep/strategy/topology.hpp>

#include "detail/expects.hpp"
#include "strategy/mesh_places.hpp"

namespace lockstep {
namespace {

Device named(std::string_view job, int task, DeviceKind kind, int index) {
  const std::string prefix = job.empty() ? "" : detail::concat("/job:", job);
  Device device(detail::concat(prefix, "/task:", task, "/device:", name(kind), ":", index));
  LOCKSTEP_EXPECTS(job.empty() || device.job() == job, InvalidArgument, "Topology: '", job,
                   "' is not the name of a job. Name one as \"worker\".");
  return device;
}

}  // namespace

Topology::Topology(std::vector<int> mesh_shape, std::vector<std::vector<std::vector<int>>> coordinates,
                   DeviceKind device_kind)
    : mesh_shape_(std::move(mesh_shape)), coordinates_(std::move(coordinates)), device_kind_(device_kind) {
  LOCKSTEP_EXPECTS(!mesh_shape_.empty(), InvalidArgument,
                   "Topology: the mesh has no axes. Give the number of places on one axis or more.");
  for (const int size : mesh_shape_)
    LOCKSTEP_EXPECTS(size >= 1, InvalidArgument, "Topology: the mesh [", listed(mesh_shape_),
                     "] has an axis of ", size, " places. Give each axis at least one.");
  places_ = index_places(coordinates_, mesh_shape_, {"Topology", "task", "device"});
}

bool Topology::has_missing_devices() const noexcept {
  return static_cast<std::size_t>(saturated_product(mesh_shape_)) > places_.size();
}

std::vector<int> Topology::mesh_shape() const&& { return mesh_shape_; }
std::vector<std::vector<std::vector<int>>> Topology::coordinates() const&& { return coordinates_; }

bool Topology::contains(const std::vector<int>& coordinates) const { return places_.contains(coordinates); }

// places_ follows from the other members.
bool operator==(const Topology& a, const Topology& b) {
  return a.device_kind_ == b.device_kind_ && a.mesh_shape_ == b.mesh_shape_ &&
         a.coordinates_ == b.coordinates_;
}

std::pair<int, int> Topology::place(const std::vector<int>& coordinates) const {
  const auto found = places_.find(coordinates);
  LOCKSTEP_EXPECTS(found != places_.end(), InvalidArgument, "Topology: there is no device at (",
                   listed(coordinates), ") of the mesh [", listed(mesh_shape_),
                   "]. Name a place that the topology was given a device for.");
  return found->second;
}

Device Topology::device(const std::vector<int>& coordinates, std::string_view job) const {
  const auto [task, device] = place(coordinates);
  return named(job, task, device_kind_, device);
}

Device Topology::host_device(const std::vector<int>& coordinates, std::string_view job) const {
  return named(job, place(coordinates).first, DeviceKind::cpu, 0);
}

}  // namespace lockstep
