#include "communicators/native_communicators.hpp"

#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"
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

TEST_CASE("a communicator whose graphs are just going is ended, not left", "[cuda]") {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) SKIP("needs two GPUs, there are " << count);
  std::vector<std::string> log;
  const ScopedLogSink sink([&](std::string_view message) { log.emplace_back(message); });
  auto captured = std::make_shared<const int>();
  cuda::LeftCommunicators::Group group{
      cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::minutes(1)), captured};
  std::promise<void> never;
  // As CUDA does, in a thread of its own, some time after the graph is destroyed.
  const auto graph =
      std::async(std::launch::async, [&never, captured = std::exchange(captured, nullptr)]() mutable {
        never.get_future().wait_for(std::chrono::milliseconds(20));
        captured.reset();
      });
  cuda::LeftCommunicators::instance().end(std::move(group));
  CHECK(log.empty());
}

TEST_CASE("a GPU that cannot be made current is what making communicators reports", "[cuda]") {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) SKIP("needs two GPUs, there are " << count);
  for (const std::vector<int>& ordinals : {std::vector{99, 1}, std::vector{0, 99}}) {
    REQUIRE_THROWS_MATCHES(
        cuda::make_native_communicators(ordinals, TestBackend::device(), std::chrono::minutes(1)),
        DeviceError,
        says("Making an NCCL communicator", "cudaSetDevice(99) failed with cudaErrorInvalidDevice"));
  }
}

TEST_CASE("a failed call of NCCL is named", "[cuda]") {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) SKIP("needs two GPUs, there are " << count);
  REQUIRE_THROWS_MATCHES(
      cuda::make_native_communicators({0, 0}, TestBackend::device(), std::chrono::minutes(1)),
      CollectiveError, says("Making an NCCL communicator on GPU:0: nccl", " failed with "));
}

TEST_CASE("what the program says of NCCL's launch order stands", "[cuda]") {
  constexpr const char* kName = "NCCL_LAUNCH_ORDER_IMPLICIT";
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) SKIP("needs two GPUs, there are " << count);
  ::setenv(kName, "0", 1);
  for (ncclComm_t communicator :
       cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::minutes(1)))
    ncclCommDestroy(communicator);
  CHECK(std::getenv(kName) == std::string("0"));
  ::unsetenv(kName);
}

}  // namespace lockstep::test
