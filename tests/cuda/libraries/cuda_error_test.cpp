#include "libraries/cuda_error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/matchers.hpp"

namespace lockstep::test {
namespace {

const Device kDevice(DeviceKind::gpu, 3);

cudaError_t fails_with(cudaError_t code) { return code; }

}  // namespace

TEST_CASE("P44 a failed CUDA call says what was attempted, where, the call, the code and its meaning",
          "[cuda]") {
  const auto fail = [] {
    LOCKSTEP_CUDA_CHECK(fails_with(cudaErrorInvalidValue), kDevice, "Copying to the host");
  };
  REQUIRE_THROWS_MATCHES(fail(), DeviceError,
                         says("Copying to the host on GPU:3", "fails_with(cudaErrorInvalidValue)",
                              "cudaErrorInvalidValue (1)", "invalid argument"));
  try {
    fail();
  } catch (const DeviceError& error) {
    CHECK(error.context().operation == "Copying to the host");
    CHECK(error.context().device == "GPU:3");
    CHECK(error.context().code == cudaErrorInvalidValue);
    CHECK(!error.is_fatal());
  }
  REQUIRE_NOTHROW([] { LOCKSTEP_CUDA_CHECK(fails_with(cudaSuccess), kDevice, "Nothing"); }());
}

TEST_CASE("an error that loses the device's context is fatal", "[cuda]") {
  const auto code = GENERATE(cudaErrorIllegalAddress, cudaErrorContained, cudaErrorTensorMemoryLeak,
                             cudaErrorMpsClientTerminated, cudaErrorExternalDevice);
  try {
    LOCKSTEP_CUDA_CHECK(fails_with(code), kDevice, "Waiting for a stream");
    FAIL("no exception");
  } catch (const DeviceError& error) {
    CHECK(error.is_fatal());
    CHECK_THAT(error, says("cannot be used again"));
  }
}

TEST_CASE("a failed cuBLAS call says the same", "[cuda]") {
  const auto fail = [] { LOCKSTEP_CUBLAS_CHECK(CUBLAS_STATUS_NOT_INITIALIZED, kDevice, "matmul"); };
  REQUIRE_THROWS_MATCHES(fail(), DeviceError, says("matmul on GPU:3", "CUBLAS_STATUS_NOT_INITIALIZED"));
}

}  // namespace lockstep::test
