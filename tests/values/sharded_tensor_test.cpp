#include <cstdint>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/values/sharded_tensor.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

namespace {

Tensor numbers(const Shape& shape) { return Tensor::arange<std::int64_t>(0, shape.size()).reshape(shape); }

std::vector<Device> cpus(int n) {
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.emplace_back(DeviceKind::cpu, i);
  return devices;
}

}  // namespace

TEST_CASE("tensors of any rank are split and read back", "[values][host]") {
  const auto check = [](const Shape& shape, const std::vector<int>& dims, const Shape& tile) {
    int num_devices = 1;
    for (const int n : dims) num_devices *= n;
    const ShardedTensor split = ShardedTensor::split(numbers(shape), dims, cpus(num_devices));
    CHECK(split.shape() == shape);
    CHECK(split.dims() == dims);
    CHECK(split.dtype() == DType::i64);
    REQUIRE(split.num_shards() == num_devices);
    for (int k = 0; k < num_devices; ++k) {
      CHECK(split.shard(k).shape() == tile);
      CHECK(split.shard(k).is_contiguous());
      CHECK(split.shard(k).device() == Device(DeviceKind::cpu, k));
    }
    const DeviceScope here("CPU:1");
    CHECK(split.value().device() == "CPU:1");
    CHECK(split.value().shape() == shape);
    CHECK(split.value().to_vector<std::int64_t>() == numbers(shape).to_vector<std::int64_t>());
  };
  check({6}, {3}, {2});
  check({4, 6}, {2, 3}, {2, 2});
  check({4, 6}, {1, 2}, {4, 3});
  check({2, 3, 4}, {2, 1, 4}, {1, 3, 1});
  check({0, 4}, {3, 2}, {0, 2});
  check({0, 4}, {2, 1}, {0, 4});
  check(Shape(), {}, Shape());
}

TEST_CASE("the last axis of a split counts fastest", "[values][host]") {
  const ShardedTensor split = ShardedTensor::split(numbers({2, 1, 3}), {2, 1, 3}, cpus(6));
  for (int k = 0; k < 6; ++k) CHECK(split.shard(k).item<std::int64_t>() == k);
}

TEST_CASE("a strided tensor is split and replicated", "[values][host]") {
  const Tensor middle = numbers({4, 4}).narrow(1, 1, 3);
  const std::vector<std::int64_t> values = {1, 2, 5, 6, 9, 10, 13, 14};
  CHECK(ShardedTensor::split(middle, {2, 1}, cpus(2)).value().to_vector<std::int64_t>() == values);
  const ShardedTensor copies = ShardedTensor::replicate(middle, cpus(2));
  CHECK(copies.shard(0).is_contiguous());
  CHECK(copies.dims() == std::vector{1, 1});
  CHECK(copies.value().to_vector<std::int64_t>() == values);
}

TEST_CASE("a replicated tensor is read where a copy is, else copied", "[values][host]") {
  const ShardedTensor copies = ShardedTensor::replicate(numbers({3}), cpus(3));
  for (int k = 0; k < 3; ++k) {
    const DeviceScope here(Device(DeviceKind::cpu, k));
    CHECK(copies.value().is_same_object(copies.shard(k)));
  }
  const DeviceScope elsewhere("CPU:7");
  CHECK(copies.value().device() == "CPU:7");
  const Tensor read = copies;
  CHECK(read.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("a sharded tensor refuses what cannot be", "[values][host]") {
  CHECK_THROWS_MATCHES(ShardedTensor::split(numbers({4}), {2, 1}, cpus(2)), InvalidArgument,
                       says("[4] int64 on CPU:0 in [2, 1] tiles", "2 numbers of tiles for 1 axes"));
  CHECK_THROWS_MATCHES(ShardedTensor::split(numbers({4}), {3}, cpus(2)), InvalidArgument,
                       says("3 tiles do not divide axis 0 of size 4"));
  CHECK_THROWS_MATCHES(ShardedTensor::split(numbers({4}), {4}, cpus(2)), InvalidArgument,
                       says("a replica has 2 logical devices"));
  // The product of these is beyond 64 bits.
  CHECK_THROWS_MATCHES(ShardedTensor::split(numbers({0, 0, 0}), {1 << 30, 1 << 30, 1 << 30}, cpus(2)),
                       InvalidArgument, says("a replica has 2 logical devices"));
  CHECK_THROWS_MATCHES(ShardedTensor::replicate(numbers({4}), {}), InvalidArgument, says("no devices"));
  const ShardedTensor copies = ShardedTensor::replicate(numbers({4}), cpus(2));
  CHECK_THROWS_MATCHES(copies.shard(2), InvalidArgument, says("no shard 2", "0 to 1"));
  CHECK_THROWS_MATCHES(copies.shard(-1), InvalidArgument, says("no shard -1"));
}
