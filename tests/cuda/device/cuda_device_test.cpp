#include "device/cuda_device.hpp"

#include <memory>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/lockstep.hpp>

#include "support/call_hook.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("a question about a stream or an event that fails names its call", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  const Event event(device);
  event.record(stream);
  {
    const CallHook hook = CallHook::failing("cudaStreamQuery", cudaErrorUnknown);
    REQUIRE_THROWS_MATCHES(stream.is_complete(), DeviceError,
                           says("Asking whether a stream is complete on " + device.to_string(),
                                "cudaStreamQuery(", "failed with cudaErrorUnknown"));
  }
  const CallHook hook = CallHook::failing("cudaEventQuery", cudaErrorUnknown);
  REQUIRE_THROWS_MATCHES(event.is_complete(), DeviceError,
                         says("Asking whether an event is complete on " + device.to_string(),
                              "cudaEventQuery(", "failed with cudaErrorUnknown"));
}

TEST_CASE("lost results are withheld until a program that knows of the loss makes a communicator", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream stream(device);
  auto& gpu = dynamic_cast<cuda::CudaDevice&>(stream.device_backend());
  const auto make_communicator = [&] { static_cast<void>(Communicator::create({device})); };
  const auto lost = std::make_shared<backend::Loss>("worker 1 was lost");
  gpu.lose_results(lost);
  make_communicator();
  gpu.finish(stream.handle());  // tells nobody
  make_communicator();
  for (int i = 0; i < 2; ++i)
    REQUIRE_THROWS_MATCHES(
        stream.synchronize(), PeerLost,
        says("Waiting for work of " + device.to_string(), "worker 1 was lost", "Make a new strategy"));
  REQUIRE_THROWS_AS(stream.is_complete(), PeerLost);
  make_communicator();
  CHECK_NOTHROW(stream.synchronize());
  gpu.lose_results(lost);  // as an abort may that comes late
  CHECK_NOTHROW(stream.synchronize());
}

TEST_CASE("urgent streams come first on the GPU, and stay urgent when they are used again", "[cuda]") {
  const Device device = TestBackend::device();
  int least = 0, greatest = 0;
  REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  const auto priority_of = [](const StreamRef& stream) {
    int priority = 0;
    REQUIRE(cudaStreamGetPriority(cuda::native_stream(stream), &priority) == cudaSuccess);
    return priority;
  };
  for (int round = 0; round < 2; ++round) {
    const Stream urgent = Stream::urgent(device), other(device);
    CHECK(priority_of(urgent) == greatest);
    CHECK(priority_of(other) == least);
  }
}

TEST_CASE("a replica's GPU is its thread's current one", "[cuda]") {
  MirroredStrategy strategy(TestBackend::devices(2));
  const PerReplica<int> current = strategy.run([] {
    int device = -1;
    cudaGetDevice(&device);
    return device;
  });
  CHECK(current[1] == TestBackend::open(1).ordinal());
}

}  // namespace lockstep::test
