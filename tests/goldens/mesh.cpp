// Device assignment and logical devices, of meshes of TensorFlow's rank 4.
#include "support/mesh.hpp"

#include <lockstep/strategy/device_assignment.hpp>
#include <lockstep/strategy/topology.hpp>
#include <lockstep/values/sharded_tensor.hpp>

#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

using Place = std::vector<int>;

/// All places of a mesh, row-major, dealt out to the tasks in blocks.
Topology topology(const Place& shape, int num_tasks = 1) {
  std::vector<Place> places{{}};
  for (const int extent : shape) {
    std::vector<Place> longer;
    for (const Place& place : places)
      for (int i = 0; i < extent; ++i) {
        longer.push_back(place);
        longer.back().push_back(i);
      }
    places = std::move(longer);
  }
  std::vector<std::vector<Place>> tasks(static_cast<std::size_t>(num_tasks));
  const std::size_t size = places.size() / tasks.size();
  for (std::size_t i = 0; i < places.size(); ++i) tasks[i / size].push_back(places[i]);
  return Topology(shape, tasks);
}

Json build(const Place& shape, const Place& computation = {}, const Place& stride = {},
           int num_replicas = 1) {
  const auto a = DeviceAssignment::build(
      topology(shape),
      {.computation_shape = computation, .computation_stride = stride, .num_replicas = num_replicas});
  Json all = Json::array();
  for (int replica = 0; replica < a.num_replicas(); ++replica) {
    all.push_back(Json::array());
    for (int core = 0; core < a.num_cores_per_replica(); ++core)
      all.back().push_back(a.coordinates(replica, core));
  }
  return rows(all);
}

/// TensorFlow's cores are TPUs.
std::string as_tpu(const Device& device) {
  std::string name = device.canonical_name();
  if (const auto replica = name.find("/replica:0"); replica != std::string::npos) name.erase(replica, 10);
  if (const auto local = name.find("/job:localhost"); local != std::string::npos) name.erase(local, 14);
  if (const auto kind = name.find("GPU"); kind != std::string::npos) name.replace(kind, 3, "TPU");
  return name;
}

/// The device of each tile.
Json tiles(int num_devices, const Shape& shape, const std::vector<int>& dims) {
  std::vector<Device> devices;
  for (int i = 0; i < num_devices; ++i) devices.emplace_back(DeviceKind::cpu, i);
  const Tensor whole = Tensor::arange(shape.size(), DType::i64, Device()).reshape(shape);
  const ShardedTensor sharded = ShardedTensor::split(whole, dims, devices);
  std::vector<int> device_of(static_cast<std::size_t>(num_devices));
  for (int k = 0; k < num_devices; ++k) {
    std::int64_t first = sharded.shard(k).to_vector<std::int64_t>()[0];
    std::int64_t tile = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      std::int64_t stride = 1;
      for (int later = axis + 1; later < shape.rank(); ++later) stride *= shape[later];
      const int count = dims[static_cast<std::size_t>(axis)];
      tile = tile * count + first / stride / (shape[axis] / count);
      first %= stride;
    }
    device_of[static_cast<std::size_t>(tile)] = k;
  }
  std::vector<std::int64_t> extents(dims.begin(), dims.end());
  return rows(encode(Tensor::from(device_of, Shape(extents))).at("value"));
}

}  // namespace

GOLDEN("assignment-explicit") {
  const DeviceAssignment a(topology({1, 1, 1, 1}), {{{0, 0, 0, 0}}});
  r("replicas, cores per replica", [&] {
    return std::vector<int>{a.num_replicas(), a.num_cores_per_replica()};
  });
  r("device", [&] { return as_tpu(a.device()); });
  r("host", [&] { return as_tpu(a.host_device()); });
  r("device with a job", [&] { return as_tpu(a.device(0, 0, "w")); });
  r("ordinal", [&] { return a.device().index(); });
  r("coordinates", [&] { return a.coordinates(0, 0); });
  r("lookup_replicas", [&] { return a.lookup_replicas(0, 0); });
  r("lookup of another task", [&] { return a.lookup_replicas(5, 0); });
}

GOLDEN("assignment-pairs") {
  r("assignment, in rank 4", [] { return build({8, 1, 1, 1}, {2, 1, 1, 1}, {}, 4); });
}

GOLDEN("assignment-stride") {
  r("assignment, in rank 4", [] { return build({8, 1, 1, 1}, {2, 1, 1, 1}, {2, 1, 1, 1}, 4); });
}

GOLDEN("assignment-errors") {
  const Place mesh{4, 2, 1, 1};
  r("9 replicas", [&] { return build(mesh, {1, 1, 1, 1}, {}, 9); });
  r("shape [5,1]", [&] { return build(mesh, {5, 1, 1, 1}); });
  r("shape [0,1]", [&] { return build(mesh, {0, 1, 1, 1}); });
  r("shape [2]", [&] { return build(mesh, {2}); });
}

GOLDEN("assignment-table") {
  struct Row {
    Place shape;
    Place computation;
    Place stride;
    int num_replicas;
  };
  const std::vector<Row> table{{{2, 2, 1, 2}, {}, {}, 2},
                               {{2, 2, 1, 2}, {}, {}, 4},
                               {{4, 2, 1, 1}, {1, 2, 1, 1}, {}, 2},
                               {{2, 2, 1, 2}, {1, 1, 1, 2}, {}, 4},
                               {{2, 2, 1, 2}, {2, 2, 1, 2}, {}, 1},
                               {{2, 2, 1, 2}, {}, {}, 8},
                               {{4, 4, 1, 2}, {2, 2, 1, 2}, {}, 4},
                               {{4, 4, 1, 2}, {1, 1, 1, 2}, {}, 8},
                               {{4, 4, 1, 1}, {2, 2, 1, 1}, {2, 2, 1, 1}, 4},
                               {{4, 2, 1, 1}, {2, 1, 1, 1}, {}, 4},
                               {{4, 2, 1, 1}, {2, 1, 1, 1}, {2, 1, 1, 1}, 4},
                               {{8, 1, 1, 1}, {2, 1, 1, 1}, {}, 3},
                               {{3, 3, 1, 1}, {}, {}, 5},
                               {{2, 3, 4, 1}, {}, {}, 7}};
  const auto list = [](const Place& place) { return place.empty() ? "None" : Json(place).dump(); };
  for (const Row& row : table)
    r(list(row.shape) + "shape" + list(row.computation) + "stride" + list(row.stride) + "x" +
          std::to_string(row.num_replicas),
      [&] { return build(row.shape, row.computation, row.stride, row.num_replicas); });
}

GOLDEN("assignment-more-errors") {
  const Place mesh{4, 2, 1, 1};
  const Place ones{1, 1, 1, 1};
  r("stride [0,1,1,1]", [&] { return build(mesh, ones, {0, 1, 1, 1}); });
  r("stride of rank 2", [&] { return build(mesh, ones, {1, 1}); });
  r("footprint 2·3 on 4", [&] { return build(mesh, {2, 1, 1, 1}, {3, 1, 1, 1}); });
  r("0 replicas", [&] { return build(mesh, {}, {}, 0); });
  r("mesh entry 0", [] { Topology({0, 1, 1, 1}, {{{0, 0, 0, 0}}}); });
  r("coordinates of 3 axes", [] { Topology({1, 1, 1, 1}, {{{0, 0, 0}}}); });
  r("a negative coordinate", [] { Topology({1, 1, 1, 1}, {{{-1, -1, -1, -1}}}); });
  r("assignment outside the mesh", [&] {
    return DeviceAssignment(topology(mesh), {{{7, 0, 0, 0}}}).num_replicas();
  });
  r("one core twice", [&] {
    return DeviceAssignment(topology(mesh), {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}}).num_replicas();
  });
  r("last size 3", [&] { return DeviceAssignment(topology(mesh), {{{0, 0, 0}}}).num_replicas(); });
  const auto a = DeviceAssignment::build(topology(mesh, 2), {.num_replicas = 8});
  r("two tasks: devices", [&] {
    std::vector<std::string> names;
    for (int replica = 0; replica < 8; ++replica) names.push_back(as_tpu(a.device(replica)));
    return names;
  });
  r("two tasks: lookup_replicas(1, 0)", [&] { return a.lookup_replicas(1, 0); });
}

GOLDEN("logical-split-order") {
  r("device of each tile", [] { return tiles(4, {4, 4}, {2, 2}); });
}

GOLDEN("logical-assign-errors") {
  Mesh mesh(1, 2);
  for (const int k : {0, 1, 2, -1})
    r(std::to_string(k), [&] { return mesh.assign_to_logical_device(f32s({1, 2}), k); });
}

GOLDEN("logical-split-table") {
  r("[1,2,4] of (2,4,8)", [] { return tiles(8, {2, 4, 8}, {1, 2, 4}); });
  r("[2,2,2] of (2,2,2)", [] { return tiles(8, {2, 2, 2}, {2, 2, 2}); });
  r("[8] of (16)", [] { return tiles(8, {16}, {8}); });
  r("[3] of (16)", [] { return tiles(8, {16}, {3}); });
  r("[4] of (16)", [] { return tiles(8, {16}, {4}); });
  r("[8, 1] of (16)", [] { return tiles(8, {16}, {8, 1}); });
}

}  // namespace lockstep::test
