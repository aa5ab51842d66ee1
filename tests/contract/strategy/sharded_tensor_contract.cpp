#include <cstdint>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/mesh.hpp"
#include "support/replica_values.hpp"

/// Tensors on the logical devices of a replica.
namespace lockstep::test {

namespace {

/// 0, 1, 2, ... on the current device.
Tensor numbers(const Shape& shape) {
  return Tensor::arange<std::int32_t>(0, static_cast<std::int32_t>(shape.size())).reshape(shape);
}

std::vector<Device> devices_of(const ShardedTensor& sharded) {
  std::vector<Device> devices;
  for (int k = 0; k < sharded.num_shards(); ++k) devices.push_back(sharded.shard(k).device());
  return devices;
}

}  // namespace

TEST_CASE("logical-split-order: tiles go to logical devices in row-major order", "[strategy][mesh]") {
  Mesh mesh(1, 4);
  const ShardedTensor split = mesh.split_to_logical_devices(numbers({4, 4}), {2, 2});
  const std::vector<std::vector<std::int32_t>> tiles = {
      {0, 1, 4, 5}, {2, 3, 6, 7}, {8, 9, 12, 13}, {10, 11, 14, 15}};
  REQUIRE(split.num_shards() == 4);
  for (int k = 0; k < 4; ++k) {
    REQUIRE(split.shard(k).device() == TestBackend::device(k));
    REQUIRE(split.shard(k).shape() == Shape{2, 2});
    REQUIRE(split.shard(k).to_vector<std::int32_t>() == tiles[static_cast<std::size_t>(k)]);
  }
  const Tensor whole = split;
  REQUIRE(whole.shape() == Shape{4, 4});
  REQUIRE(whole.device() == current_device());
  REQUIRE(whole.to_vector<std::int32_t>() == numbers({4, 4}).to_vector<std::int32_t>());
}

TEST_CASE("logical-assign-errors: only a replica's logical devices are assigned to", "[strategy][mesh]") {
  Mesh mesh(1, 2);
  const Tensor tensor = numbers({3});
  for (const int k : {0, 1}) {
    const Tensor assigned = mesh.assign_to_logical_device(tensor, k);
    REQUIRE(assigned.device() == TestBackend::device(k));
    REQUIRE(assigned.to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 1, 2});
    REQUIRE((assigned + assigned).device() == TestBackend::device(k));  // further work runs there
  }
  REQUIRE_THROWS_MATCHES(mesh.assign_to_logical_device(tensor, 2), InvalidArgument,
                         says("assign_to_logical_device(2) of MeshStrategy", "0 to 1"));
  REQUIRE_THROWS_MATCHES(mesh.assign_to_logical_device(tensor, -1), InvalidArgument,
                         says("assign_to_logical_device(-1)"));
}

TEST_CASE("in a replica tensors are placed on its own logical devices", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  const auto all = mesh.run([&](ReplicaContext& ctx) {
    const Tensor tensor = numbers({2, 3}) + 10 * ctx.replica_id_in_sync_group();
    Strategy& strategy = ctx.strategy();
    return std::tuple{strategy.assign_to_logical_device(tensor, 1),
                      strategy.split_to_logical_devices(tensor, {2, 1}),
                      strategy.replicate_to_logical_devices(tensor)};
  });
  for (int r = 0; r < 2; ++r) {
    const std::vector<Device> devices = {TestBackend::device(2 * r), TestBackend::device(2 * r + 1)};
    const std::int32_t first = 10 * r;
    const std::vector<std::int32_t> values = {first, first + 1, first + 2, first + 3, first + 4, first + 5};
    REQUIRE(std::get<0>(all)[r].device() == devices[1]);
    REQUIRE(std::get<0>(all)[r].to_vector<std::int32_t>() == values);
    const ShardedTensor& split = std::get<1>(all)[r];
    REQUIRE(devices_of(split) == devices);
    REQUIRE(split.shard(1).to_vector<std::int32_t>() ==
            std::vector<std::int32_t>{first + 3, first + 4, first + 5});
    REQUIRE(split.value().to_vector<std::int32_t>() == values);
    const ShardedTensor& copies = std::get<2>(all)[r];
    REQUIRE(devices_of(copies) == devices);
    for (int k = 0; k < 2; ++k) REQUIRE(copies.shard(k).to_vector<std::int32_t>() == values);
    REQUIRE(copies.value().to_vector<std::int32_t>() == values);
  }
}

TEST_CASE("a sharded tensor is read on the current device", "[strategy][mesh]") {
  Mesh mesh(1, 2);
  const ShardedTensor split = mesh.split_to_logical_devices(numbers({2, 2}), {1, 2});
  const ShardedTensor copies = mesh.replicate_to_logical_devices(numbers({2, 2}));
  const auto read = mesh.run([&](ReplicaContext& ctx) {
    const auto guard = ctx.logical_device(1);
    return std::tuple{split.value(), copies.value(), split + copies};
  });
  REQUIRE(std::get<0>(read)[0].device() == TestBackend::device(1));
  REQUIRE(std::get<1>(read)[0].is_same_object(copies.shard(1)));
  REQUIRE(std::get<2>(read)[0].to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 2, 4, 6});
}

TEST_CASE("in an update tensors are placed on the logical devices of the component's replica",
          "[strategy][mesh]") {
  Mesh mesh(2, 2);
  const Variable variable = mesh.make_variable(Tensor::scalar(1.0f));
  const auto placed = mesh.extended().update(
      variable, [&](Tensor& local) { return mesh.assign_to_logical_device(local.clone(), 1); });
  REQUIRE((placed[0].device() == TestBackend::device(1) && placed[1].device() == TestBackend::device(3)));
}

TEST_CASE("splitting checks rank, divisibility and number of tiles, in this order", "[strategy][mesh]") {
  Mesh mesh(1, 2);
  const Tensor tensor = numbers({4, 6});
  const auto refused = [&](const std::vector<int>& dims, const std::string& why) {
    REQUIRE_THROWS_MATCHES(mesh.split_to_logical_devices(tensor, dims), InvalidArgument,
                           says("[4, 6] int32", why));
  };
  refused({3}, "1 numbers of tiles for 2 axes");
  refused({3, 1}, "3 tiles do not divide axis 0 of size 4");
  refused({2, 4}, "4 tiles do not divide axis 1 of size 6");
  refused({0, 2}, "0 tiles do not divide axis 0");
  refused({-2, -1}, "-2 tiles do not divide axis 0");
  refused({2, 2}, "a replica has 2 logical devices");
  refused({1, 1}, "a replica has 2 logical devices");
}

TEST_CASE("without a mesh there is logical device 0", "[strategy][mesh]") {
  Replicas mirrored(2);
  OneDeviceStrategy one(TestBackend::device());
  for (Strategy* const strategy : std::initializer_list<Strategy*>{&mirrored, &one}) {
    REQUIRE(strategy->num_logical_devices() == 1);
    REQUIRE(strategy->cluster_resolver() == nullptr);
    const Tensor tensor = numbers({2, 2});
    REQUIRE(strategy->assign_to_logical_device(tensor, 0).device() == TestBackend::device());
    REQUIRE_THROWS_MATCHES(strategy->assign_to_logical_device(tensor, 1), InvalidArgument,
                           says(std::string(strategy->name()), "from number 0 to 0"));
    for (const ShardedTensor& sharded : {strategy->split_to_logical_devices(tensor, {1, 1}),
                                         strategy->replicate_to_logical_devices(tensor)}) {
      REQUIRE(devices_of(sharded) == std::vector{TestBackend::device()});
      REQUIRE(sharded.value().to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 1, 2, 3});
    }
    REQUIRE_THROWS_AS(strategy->split_to_logical_devices(tensor, {2, 1}), InvalidArgument);
  }
  const auto on_own = mirrored.run(
      [&](ReplicaContext& ctx) { return ctx.strategy().assign_to_logical_device(numbers({2}), 0); });
  REQUIRE(on_own[1].device() == TestBackend::device(1));
}

TEST_CASE("the default strategy leaves tensors on the current device", "[strategy][mesh]") {
  const DeviceScope here(TestBackend::device());
  const Tensor tensor = numbers({2});
  REQUIRE(get_strategy().assign_to_logical_device(tensor, 0).is_same_object(tensor));
  REQUIRE(get_strategy().split_to_logical_devices(tensor, {1}).shard(0).is_same_object(tensor));
  REQUIRE_THROWS_AS(get_strategy().assign_to_logical_device(tensor, 1), InvalidArgument);
}

TEST_CASE("tensors are not placed for another strategy", "[strategy][mesh]") {
  Mesh mesh(1, 2);
  Replicas other(1);
  const auto scope = other.scope();
  const Tensor tensor = numbers({2});
  REQUIRE_THROWS_MATCHES(mesh.assign_to_logical_device(tensor, 1), ContextError,
                         says("assign_to_logical_device of MeshStrategy", "MirroredStrategy"));
  REQUIRE_THROWS_MATCHES(mesh.split_to_logical_devices(tensor, {2}), ContextError,
                         says("split_to_logical_devices"));
  REQUIRE_THROWS_MATCHES(mesh.replicate_to_logical_devices(tensor), ContextError,
                         says("replicate_to_logical_devices"));
}

}  // namespace lockstep::test
