#include "communicators/native_communicators.hpp"

#include <cstdlib>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "cuda/communicators/operands.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("making an NCCL communicator is given up after the time limit", "[cuda]") {
  need_gpus(2);
  REQUIRE_THROWS_MATCHES(
      cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::milliseconds(0)),
      CollectiveTimeout, says("2 GPUs", "0 ms", "NCCL_DEBUG"));
  cuda::wait_for_abandoned_communicators();
}

TEST_CASE("a GPU that cannot be made current is what making communicators reports", "[cuda]") {
  need_gpus(2);
  for (const std::vector<int>& ordinals : {std::vector{99, 1}, std::vector{0, 99}}) {
    REQUIRE_THROWS_MATCHES(
        cuda::make_native_communicators(ordinals, TestBackend::device(), std::chrono::minutes(1)),
        DeviceError,
        says("Making an NCCL communicator", "cudaSetDevice(99) failed with cudaErrorInvalidDevice"));
  }
}

TEST_CASE("a failed call of NCCL is named", "[cuda]") {
  need_gpus(2);
  REQUIRE_THROWS_MATCHES(
      cuda::make_native_communicators({0, 0}, TestBackend::device(), std::chrono::minutes(1)),
      CollectiveError, says("Making an NCCL communicator on GPU:0: nccl", " failed with "));
}

TEST_CASE("what the program says of NCCL's launch order stands", "[cuda]") {
  constexpr const char* kName = "NCCL_LAUNCH_ORDER_IMPLICIT";
  need_gpus(2);
  ::setenv(kName, "0", 1);
  for (ncclComm_t communicator :
       cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::minutes(1)))
    ncclCommDestroy(communicator);
  CHECK(std::getenv(kName) == std::string("0"));
  ::unsetenv(kName);
}

}  // namespace lockstep::test
