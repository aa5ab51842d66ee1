#include "device/block_cache.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/stream.hpp>

#include "support/call_hook.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("a cache of blocks tells which of its calls failed", "[cuda]") {
  const Device device = TestBackend::device();
  const Stream owner(device), other(device);
  const cudaStream_t stream = cuda::native_stream(owner);
  cuda::BlockCache cache;
  void* data = nullptr;
  const auto failed_call = [](const std::string& call, const auto& act) {
    const CallHook hook = CallHook::failing(call, cudaErrorUnknown);
    const cuda::CallResult result = act();
    CHECK(result.code == cudaErrorUnknown);
    CHECK(std::string(result.call).starts_with(call));
  };
  const auto allocate = [&] { return cache.allocate(&data, 1000, stream); };
  const auto deallocate = [&] { return cache.deallocate(data, 1000, stream); };
  failed_call("cudaStreamIsCapturing", allocate);
  failed_call("cudaMalloc", allocate);
  REQUIRE(!allocate().failed());
  failed_call("cudaEventCreate", deallocate);
  failed_call("cudaEventRecord", deallocate);
  REQUIRE(!deallocate().failed());
  failed_call("cudaStreamWaitEvent", allocate);
  REQUIRE(!cache.trim().failed());
  REQUIRE(!allocate().failed());
  REQUIRE(!deallocate().failed());
  void* const kept = data;
  failed_call("cudaFree", [&] { return cache.trim(); });
  CHECK(cudaFree(kept) == cudaSuccess);
}

}  // namespace lockstep::test
