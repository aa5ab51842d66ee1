#include "native_communicators.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("making an NCCL communicator is given up after the time limit", "[cuda]") {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) SKIP("needs two GPUs, there are " << count);
  REQUIRE_THROWS_MATCHES(
      cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::milliseconds(0)),
      CollectiveTimeout, says("2 GPUs", "0 ms", "NCCL_DEBUG"));
  cuda::wait_for_abandoned_communicators();
}

}  // namespace lockstep::test
