#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/cuda/cuda_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/lockstep.hpp>

#include "cuda/has_context.hpp"
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
  REQUIRE_THROWS_MATCHES(manager.backend(DeviceKind::gpu).create_communicator(opened, {}), Unsupported,
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

TEST_CASE("P38 a strategy on GPU 1 makes no context on GPU 0", "[cuda]") {
  DeviceManager manager = fresh_manager();
  if (has_context(0)) SKIP("an earlier test has used GPU 0");
  const Device second = TestBackend::device(1);
  {
    OneDeviceStrategy strategy(second);
    const auto value = strategy.run([] { return Tensor::ones({1 << 20}) * 2.0f; });
    REQUIRE(strategy.local_results(value)[0].device() == second);
    REQUIRE(strategy.local_results(value)[0].to_vector<float>()[7] == 2);
    const auto scope = strategy.scope();
    Variable variable(Tensor::zeros({4}));
    variable.assign_add(1.0f);
  }
  Tensor a = Tensor::arange(24.0f, DType::f32, second).reshape({4, 6});
  const Tensor sums = reduce_axes(ReduceOp::sum, matmul(a, a, true, false), 0, DType::f32);
  REQUIRE(sums.clone().cast(DType::f64).to_vector<double>()[0] > 0);
  const Stream stream(second);
  const Event event(second);
  event.record(stream);
  stream.wait(event);
  event.synchronize();
  stream.synchronize();
  REQUIRE((stream.is_complete() && event.is_complete()));
  { const PinnedBuffer pinned(1000, second); }
  static_cast<void>(memory_stats(second));
  trim_memory(second);
  REQUIRE(has_context(1));
  REQUIRE(!has_context(0));
  int current = -1;
  REQUIRE(cudaGetDevice(&current) == cudaSuccess);
  REQUIRE(current == 0);
}

TEST_CASE("an error that the program has left behind is not taken for a kernel's", "[cuda]") {
  const Device device = TestBackend::device();
  const Tensor ones = Tensor::ones({100}, DType::f32, device);
  void* data = nullptr;
  REQUIRE(cudaHostAlloc(&data, 1, ~0u) == cudaErrorInvalidValue);
  REQUIRE((ones + ones).to_vector<float>()[99] == 2);
  cudaGetLastError();
}

TEST_CASE("the borrowed default stream is its own GPU's, whatever GPU is current", "[cuda]") {
  const Device second = TestBackend::device(1);
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) SKIP("needs two GPUs, there are " << count);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const StreamRef borrowed = Stream::borrow(nullptr, second);
  const StreamScope scope(borrowed);
  Tensor values = Tensor::full({1 << 12}, 3.0f, DType::f32, second);
  const Event event(second);
  event.record(borrowed);
  values = values * 2.0f;
  const Tensor copy = values.clone();
  borrowed.wait(event);
  borrowed.synchronize();
  REQUIRE((borrowed.is_complete() && event.is_complete()));
  REQUIRE(copy.to_vector<float>() == std::vector<float>(1 << 12, 6.0f));
}

}  // namespace lockstep::test
