#include "device/device_guard.hpp"

#include <functional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

#include "support/test_backend.hpp"

namespace lockstep::test {
namespace {

/// Skips the test where there are not two real GPUs.
void need_two_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) SKIP("needs two GPUs, there are " << count);
}

int current() {
  int device = -1;
  REQUIRE(cudaGetDevice(&device) == cudaSuccess);
  return device;
}

}  // namespace

TEST_CASE("a DeviceGuard makes a GPU current for a scope, whatever was before", "[cuda]") {
  need_two_gpus();
  const int before = GENERATE(0, 1);
  REQUIRE(cudaSetDevice(before) == cudaSuccess);
  {
    const cuda::DeviceGuard outer(1, "GPU:1");
    REQUIRE(current() == 1);
    {
      const cuda::DeviceGuard inner(0, "GPU:0");
      REQUIRE(current() == 0);
    }
    REQUIRE(current() == 1);
  }
  REQUIRE(current() == before);
  REQUIRE_THROWS_AS(cuda::DeviceGuard(1000, "GPU:1000"), DeviceError);
  REQUIRE(current() == before);
}

TEST_CASE("P37 the caller's current GPU is the same after every call as before it, also when one throws",
          "[cuda]") {
  need_two_gpus();
  const std::vector<Device> devices = TestBackend::devices(2);
  const int before = GENERATE(0, 1);
  REQUIRE(cudaSetDevice(before) == cudaSuccess);
  const auto unchanged = [&](const char* what, const std::function<void()>& call) {
    CAPTURE(what);
    try {
      call();
    } catch (const Error&) {
    }
    REQUIRE(current() == before);
  };
  for (const Device& device : devices) {
    CAPTURE(device.to_string());
    Tensor a, b;
    unchanged("zeros", [&] { a = Tensor::zeros({17, 5}, DType::f32, device); });
    unchanged("arange", [&] { b = Tensor::arange(85.0f, DType::f32, device).reshape({17, 5}); });
    unchanged("arithmetic", [&] { a = (a + b) * 2.0f; });
    unchanged("cast", [&] { b = a.cast(DType::bf16); });
    unchanged("reduction", [&] { b = reduce_axes(ReduceOp::sum, a, 0, DType::f32); });
    unchanged("matmul", [&] { b = matmul(a, a, true, false); });
    unchanged("peer copy", [&] { b = a.to(devices[0]).to(devices[1]); });
    unchanged("to_vector", [&] { REQUIRE(a.to_vector<float>()[84] == 168); });
    unchanged("stream and event", [&] {
      const Stream stream(device);
      const Event event(device);
      event.record(stream);
      stream.wait(event);
      stream.synchronize();
    });
    unchanged("pinned memory", [&] { const PinnedBuffer pinned(1000, device); });
    unchanged("statistics", [&] { static_cast<void>(memory_stats(device)); });
    unchanged("trimming", [&] { trim_memory(device); });
    unchanged("out of memory",
              [&] { static_cast<void>(Tensor::empty({std::int64_t{1} << 45}, DType::f32, device)); });
  }
  unchanged("strategy", [&] {
    MirroredStrategy strategy(devices);
    unchanged("run", [&] {
      strategy.run([](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::mean, Tensor::ones({3})); });
    });
    unchanged("failing run", [&] {
      strategy.run([](ReplicaContext& ctx) {
        const std::int64_t n = ctx.replica_id_in_sync_group() + 1;
        return ctx.all_reduce(ReduceOp::mean, Tensor::ones({n}));
      });
    });
    unchanged("variable", [&] {
      const auto scope = strategy.scope();
      Variable variable(Tensor::zeros({4}));
      variable.assign_add(1.0f);
    });
  });
  REQUIRE(cudaPeekAtLastError() == cudaSuccess);  // no error is left behind either
}

}  // namespace lockstep::test
