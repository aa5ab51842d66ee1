#include "libraries/nccl_error.hpp"

#include <catch2/catch_test_macros.hpp>

#include "support/matchers.hpp"

namespace lockstep::test {

TEST_CASE("P44 a failed NCCL call says what was attempted, where, the call, the code and what helps",
          "[cuda]") {
  const Device device(DeviceKind::gpu, 2);
  const auto fail = [&] { LOCKSTEP_NCCL_CHECK(ncclSystemError, nullptr, device, "all_reduce(sum)"); };
  REQUIRE_THROWS_MATCHES(fail(), CollectiveError,
                         says("all_reduce(sum) on GPU:2", "ncclSystemError", "(2)", "NCCL_DEBUG=INFO",
                              "/dev/shm", "--shm-size"));
  try {
    fail();
  } catch (const CollectiveError& error) {
    CHECK(error.context().operation == "all_reduce");
    CHECK(error.context().code == ncclSystemError);
    CHECK(error.context().device == "GPU:2");
  }
}

TEST_CASE("a group that is left by an exception is closed", "[cuda]") {
  const Device device(DeviceKind::gpu, 0);
  const auto leave = [&] {
    const cuda::NcclGroup group(device, "all_reduce");
    throw ContextError("left");
  };
  REQUIRE_THROWS_AS(leave(), ContextError);
  REQUIRE(ncclGroupEnd() != ncclSuccess);  // none is open
}

}  // namespace lockstep::test
