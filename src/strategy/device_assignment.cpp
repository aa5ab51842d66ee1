#include <algorithm>
#include <numeric>

#include <lockstep/error.hpp>
#include <lockstep/strategy/device_assignment.hpp>

#include "detail/expects.hpp"
#include "strategy/mesh_places.hpp"

namespace lockstep {
namespace {

// The assignment along one axis of the mesh, as AssignmentOptions ask for it.
struct Axis {
  int num_cores;     // of a replica
  int stride;        // from one core to the next
  int footprint;     // places that a replica spans
  int capacity;      // replicas that fit
  int num_replicas;  // of the grid

  // Strides leave room between the cores of a replica, which the next ones fill.
  int start(int position) const { return position / stride * footprint + position % stride; }
};

std::vector<int> ones_if_empty(const std::vector<int>& numbers, const Topology& topology,
                               std::string_view option) {
  if (numbers.empty()) return std::vector<int>(topology.mesh_shape().size(), 1);
  LOCKSTEP_EXPECTS(numbers.size() == topology.mesh_shape().size(), InvalidArgument,
                   "DeviceAssignment::build: ", option, " [", listed(numbers), "] has ", numbers.size(),
                   " entries; the mesh [", listed(topology.mesh_shape()), "] has rank ", topology.mesh_rank(),
                   ". Give one for each axis.");
  for (const int number : numbers)
    LOCKSTEP_EXPECTS(number >= 1, InvalidArgument, "DeviceAssignment::build: ", option, " [", listed(numbers),
                     "] has the entry ", number, ". Give entries of at least 1.");
  return numbers;
}

std::vector<Axis> axes_of(const Topology& topology, const AssignmentOptions& options) {
  const std::vector<int>& mesh = topology.mesh_shape();
  const std::vector<int> shape = ones_if_empty(options.computation_shape, topology, "computation_shape");
  const std::vector<int> stride = ones_if_empty(options.computation_stride, topology, "computation_stride");
  std::vector<Axis> axes;
  for (std::size_t axis = 0; axis < mesh.size(); ++axis) {
    const int footprint = saturated_product(shape[axis], stride[axis]);
    LOCKSTEP_EXPECTS(footprint <= mesh[axis], InvalidArgument, "DeviceAssignment::build: a replica of ",
                     shape[axis], " logical cores with stride ", stride[axis], " on axis ", axis,
                     " does not fit in the mesh [", listed(mesh),
                     "]. Keep shape times stride within the mesh on every axis.");
    axes.push_back({shape[axis], stride[axis], footprint, mesh[axis] / footprint * stride[axis], 1});
  }
  return axes;
}

int product_of(const std::vector<Axis>& axes, int Axis::*number) {
  int product = 1;
  for (const Axis& axis : axes) product = saturated_product(product, axis.*number);
  return product;
}

// Replicas are numbered along the last axis first, then along axis 0, 1 and so on.
std::vector<std::size_t> numbering_order(std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.end() - 1, order.end());
  return order;
}

// The narrowest axes choose first; wider ones take the rest.
void choose_grid(std::vector<Axis>& axes, int num_replicas) {
  std::vector<std::size_t> order = numbering_order(axes.size());
  std::ranges::stable_sort(order, {}, [&](std::size_t axis) { return axes[axis].capacity; });
  int num_left = num_replicas;
  std::size_t num_axes_left = axes.size();
  for (const std::size_t axis : order) {
    int& taken = axes[axis].num_replicas;
    while (taken < axes[axis].capacity &&
           saturated_product(std::vector<int>(num_axes_left, taken)) < num_left)
      ++taken;
    num_left = (num_left - 1) / taken + 1;
    --num_axes_left;
  }
}

std::vector<std::vector<int>> cores_of(int replica, const std::vector<Axis>& axes) {
  std::vector<int> start(axes.size());
  for (const std::size_t axis : numbering_order(axes.size())) {
    start[axis] = axes[axis].start(replica % axes[axis].num_replicas);
    replica /= axes[axis].num_replicas;
  }
  std::vector<std::vector<int>> cores(static_cast<std::size_t>(product_of(axes, &Axis::num_cores)), start);
  for (std::size_t core = 0; core < cores.size(); ++core) {
    int left = static_cast<int>(core);
    for (std::size_t axis = axes.size(); axis-- > 0; left /= axes[axis].num_cores)
      cores[core][axis] += left % axes[axis].num_cores * axes[axis].stride;
  }
  return cores;
}

std::vector<std::vector<std::vector<int>>> deal_out(const Topology& topology, int num_replicas,
                                                    int num_cores_per_replica) {
  std::vector<std::vector<std::vector<int>>> dealt(static_cast<std::size_t>(num_replicas));
  auto replica = dealt.begin();
  for (const std::vector<std::vector<int>>& devices : topology.coordinates()) {
    for (const std::vector<int>& place : devices) {
      if (replica == dealt.end()) return dealt;
      replica->push_back(place);
      if (replica->size() == static_cast<std::size_t>(num_cores_per_replica)) ++replica;
    }
  }
  return dealt;
}

}  // namespace

DeviceAssignment::DeviceAssignment(Topology topology,
                                   std::vector<std::vector<std::vector<int>>> core_assignment)
    : topology_(std::move(topology)), core_assignment_(std::move(core_assignment)) {
  const auto owners =
      index_places(core_assignment_, topology_.mesh_shape(), {"DeviceAssignment", "replica", "logical core"});
  for (const auto& [place, owner] : owners)
    LOCKSTEP_EXPECTS(topology_.contains(place), InvalidArgument, "DeviceAssignment: logical core ",
                     owner.second, " of replica ", owner.first, " is at (", listed(place),
                     "), where the topology has no device. Name the place of one of its devices.");
}

DeviceAssignment DeviceAssignment::build(Topology topology, const AssignmentOptions& options) {
  std::vector<Axis> axes = axes_of(topology, options);
  const int num_replicas = options.num_replicas;
  LOCKSTEP_EXPECTS(num_replicas >= 1, InvalidArgument, "DeviceAssignment::build: num_replicas is ",
                   num_replicas, ". Ask for at least one.");
  const int most = product_of(axes, &Axis::capacity);
  LOCKSTEP_EXPECTS(num_replicas <= most, InvalidArgument, "DeviceAssignment::build: ", num_replicas,
                   " replicas do not fit in the mesh [", listed(topology.mesh_shape()),
                   "], which has room for ", most, ". Ask for fewer, or for smaller ones.");

  std::vector<std::vector<std::vector<int>>> assignment;
  if (topology.has_missing_devices()) {
    const int num_devices = topology.num_tasks() * topology.num_devices_per_task();
    const int num_cores = product_of(axes, &Axis::num_cores);
    LOCKSTEP_EXPECTS(product_of(axes, &Axis::stride) == 1, InvalidArgument,
                     "DeviceAssignment::build: computation_stride [", listed(options.computation_stride),
                     "] needs a device at every place of the mesh [", listed(topology.mesh_shape()),
                     "]; there are ", num_devices,
                     ". Leave the stride out: devices are dealt out in the order "
                     "of tasks.");
    LOCKSTEP_EXPECTS(saturated_product(num_replicas, num_cores) <= num_devices, InvalidArgument,
                     "DeviceAssignment::build: ", num_replicas, " replicas of ", num_cores,
                     " logical cores need more than the ", num_devices, " devices of the mesh [",
                     listed(topology.mesh_shape()), "], some of whose places are empty. Ask for fewer.");
    assignment = deal_out(topology, num_replicas, num_cores);
  } else {
    choose_grid(axes, num_replicas);
    for (int replica = 0; replica < num_replicas; ++replica) assignment.push_back(cores_of(replica, axes));
  }
  return {std::move(topology), std::move(assignment)};
}

const std::vector<int>& DeviceAssignment::coordinates(int replica, int logical_core) const& {
  LOCKSTEP_EXPECTS(
      replica >= 0 && replica < num_replicas() && logical_core >= 0 && logical_core < num_cores_per_replica(),
      InvalidArgument, "DeviceAssignment: there is no logical core ", logical_core, " of replica ", replica,
      ". Replicas count from 0 to ", num_replicas() - 1, ", their logical cores from 0 to ",
      num_cores_per_replica() - 1, ".");
  return core_assignment_[replica][logical_core];
}

std::vector<int> DeviceAssignment::lookup_replicas(int task, int logical_core) const {
  std::vector<int> replicas;
  for (int replica = 0; replica < num_replicas(); ++replica)
    if (device(replica, logical_core).task() == task) replicas.push_back(replica);
  LOCKSTEP_EXPECTS(!replicas.empty(), InvalidArgument, "DeviceAssignment: no replica has its logical core ",
                   logical_core, " on task ", task, ". The topology has ", topology_.num_tasks(),
                   " tasks, the assignment ", num_replicas(), " replicas.");
  return replicas;
}

Topology DeviceAssignment::topology() const&& { return topology_; }

std::vector<int> DeviceAssignment::coordinates(int replica, int logical_core) const&& {
  return coordinates(replica, logical_core);
}

bool operator==(const DeviceAssignment& a, const DeviceAssignment& b) {
  return a.topology_ == b.topology_ && a.core_assignment_ == b.core_assignment_;
}

}  // namespace lockstep
