#pragma once

#include <atomic>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/stream.hpp>

namespace lockstep::test {

/// Stops a stream where it is until the Gate goes. A thread of its own waits for the stream: on virtual GPUs
/// a host function runs in a thread that waits.
class Gate {
 public:
  explicit Gate(const StreamRef& stream) {
    REQUIRE(cudaLaunchHostFunc(cuda::native_stream(stream), stand, this) == cudaSuccess);
    waiter_ = std::jthread([native = cuda::native_stream(stream)] { cudaStreamSynchronize(native); });
    is_reached_.wait(false);
  }
  ~Gate() {
    is_open_ = true;
    is_open_.notify_all();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

 private:
  static void stand(void* self) {
    Gate& gate = *static_cast<Gate*>(self);
    gate.is_reached_ = true;
    gate.is_reached_.notify_all();
    gate.is_open_.wait(false);
  }

  std::atomic<bool> is_reached_{false}, is_open_{false};
  std::jthread waiter_;  // joined before the other members are destroyed
};

}  // namespace lockstep::test
