#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/cuda/cuda_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {
namespace {

/// Whose devices nobody has split. Skips the test where there are not two real GPUs.
DeviceManager fresh_manager() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) SKIP("needs two GPUs, there are " << count);
  std::vector<std::unique_ptr<backend::Backend>> backends;
  backends.push_back(cuda::make_backend());
  return DeviceManager(std::move(backends));
}

std::size_t free_bytes(int ordinal) {
  int before = 0;
  REQUIRE(cudaGetDevice(&before) == cudaSuccess);
  REQUIRE(cudaSetDevice(ordinal) == cudaSuccess);
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  REQUIRE(cudaSetDevice(before) == cudaSuccess);
  return free;
}

}  // namespace

TEST_CASE("GPUs say what they are and how they are linked", "[cuda]") {
  const int n = TestBackend::num_devices();
  auto& manager = DeviceManager::instance();
  for (const Device& device : manager.devices(DeviceKind::gpu)) {
    const DeviceInfo info = manager.info(device);
    CHECK(!info.name.empty());
    CHECK(info.memory_bytes > 0);
    CHECK(info.pci_bus_id.size() == 12);
    CHECK(info.compute_capability[0] >= 7);
  }
  const auto links = manager.peer_links();
  REQUIRE(links.size() == static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < links.size(); ++i) {
    REQUIRE(links[i].size() == links.size());
    CHECK(links[i][i] == PeerLink::same_device);
  }
}

TEST_CASE("virtual devices take their GPU's place, and the GPUs behind it move up", "[cuda]") {
  DeviceManager manager = fresh_manager();
  const auto n = manager.devices(DeviceKind::gpu).size();
  const std::string second = manager.info("GPU:1").pci_bus_id;
  manager.set_virtual_devices("GPU:0", 3);
  REQUIRE(manager.devices(DeviceKind::gpu).size() == n + 2);
  CHECK(manager.info("GPU:2").pci_bus_id == manager.info("GPU:0").pci_bus_id);
  CHECK(manager.info("GPU:3").pci_bus_id == second);
  CHECK(manager.peer_links()[0][2] == PeerLink::same_device);

  REQUIRE_THROWS_MATCHES(manager.set_virtual_devices("GPU:1", 2), Unsupported,
                         says("GPU:1", "virtual", "GPU:0"));
  manager.set_virtual_devices("GPU:0", 1);
  REQUIRE(manager.devices(DeviceKind::gpu).size() == n);
}

TEST_CASE("a group of some virtual devices of one GPU and another GPU is refused", "[cuda]") {
  DeviceManager manager = fresh_manager();
  manager.set_virtual_devices("GPU:0", 2);
  std::vector<backend::DeviceBackend*> opened;
  for (const char* name : {"GPU:0", "GPU:1", "GPU:2"}) opened.push_back(&manager.open(name));
  REQUIRE_THROWS_MATCHES(manager.backend(DeviceKind::gpu).create_communicator(opened), Unsupported,
                         says("GPU:0", "GPU:1", "virtual devices of one GPU"));
}

TEST_CASE("P36 roots and destinations are replica indices, whatever the GPUs are called", "[cuda]") {
  const std::vector<Device> all = TestBackend::devices(4);
  MirroredStrategy strategy({all[2], all[3]});
  const auto values = strategy.run([](ReplicaContext& ctx) {
    return Tensor::full({3}, ctx.replica_id_in_sync_group() == 0 ? 0.0f : 10.0f);
  });
  const auto reduced = strategy.extended().reduce_to(ReduceOp::sum, values, all[3]);
  REQUIRE(reduced[0].device() == all[3]);
  REQUIRE(reduced[0].to_vector<float>() == std::vector<float>(3, 10));
}

TEST_CASE("P38 a strategy on GPU 1 allocates nothing on GPU 0", "[cuda]") {
  DeviceManager manager = fresh_manager();
  const Device second = TestBackend::device(1);
  const std::size_t before = free_bytes(0);
  OneDeviceStrategy strategy(second);
  const auto value = strategy.run([] { return Tensor::ones({1 << 20}) * 2.0f; });
  REQUIRE(strategy.local_results(value)[0].device() == second);
  REQUIRE(free_bytes(0) == before);
}

}  // namespace lockstep::test
