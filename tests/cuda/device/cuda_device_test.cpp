#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

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

}  // namespace lockstep::test
