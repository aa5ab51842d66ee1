#include "device/cuda_memory.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/lockstep.hpp>

#include "support/call_hook.hpp"
#include "support/captured_stderr.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("a memory pool that cannot be made says which call failed", "[cuda]") {
  const Device device = TestBackend::device();
  TestBackend::open();
  const CallHook hook = CallHook::failing("cudaMemPoolSetAttribute", cudaErrorUnknown);
  REQUIRE_THROWS_MATCHES(cuda::CudaMemory(0, device), DeviceError,
                         says("Making the device's memory pool on " + device.to_string(),
                              "cudaMemPoolSetAttribute(", "failed with cudaErrorUnknown"));
}

TEST_CASE("trimming that fails says which call failed", "[cuda]") {
  const Device device = TestBackend::device();
  TestBackend::open().default_stream_handle();
  for (const std::string call : {"cudaStreamSynchronize", "cudaMemPoolTrimTo"}) {
    const CallHook hook = CallHook::failing(call, cudaErrorUnknown);
    REQUIRE_THROWS_MATCHES(
        trim_memory(device), DeviceError,
        says("trim_memory on " + device.to_string(), call + "(", "failed with cudaErrorUnknown"));
  }
}

TEST_CASE("memory that cannot be freed is said with the call", "[cuda]") {
  const Stream stream(TestBackend::device());
  const StreamScope scope(stream);
  Tensor tensor = Tensor::ones({1 << 20}, DType::f32, TestBackend::device());  // more than streams keep
  void* const data = tensor.view().data;
  const std::string said = captured_stderr([&] {
    const CallHook hook = CallHook::failing("cudaFreeAsync", cudaErrorUnknown);
    tensor = Tensor();
  });
  CHECK(cudaFreeAsync(data, cuda::native_stream(stream)) == cudaSuccess);
  REQUIRE(said == "lockstep: cudaFreeAsync(data, stream) failed with cudaErrorUnknown while releasing it\n");
}

}  // namespace lockstep::test
