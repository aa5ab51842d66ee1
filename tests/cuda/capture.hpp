#pragma once

#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/cuda/interop.hpp>
#include <lockstep/stream.hpp>

namespace lockstep::test {

/// Captures the work that is enqueued on the streams between construction and end() into a graph.
class Capture {
 public:
  explicit Capture(const std::vector<StreamRef>& streams,
                   cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal)
      : streams_(streams) {
    REQUIRE(cudaStreamBeginCapture(cuda::native_stream(streams_[0]), mode) == cudaSuccess);
    for (std::size_t i = 1; i < streams_.size(); ++i) streams_[i].wait(streams_[0]);
  }
  void end() {
    for (std::size_t i = 1; i < streams_.size(); ++i) streams_[0].wait(streams_[i]);
    REQUIRE(cudaStreamEndCapture(cuda::native_stream(streams_[0]), &graph_) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable_, graph_, 0) == cudaSuccess);
  }
  void launch() {
    REQUIRE(start() == cudaSuccess);
    REQUIRE(wait() == cudaSuccess);
  }
  cudaError_t start() { return cudaGraphLaunch(executable_, cuda::native_stream(streams_[0])); }
  cudaError_t wait() { return cudaStreamSynchronize(cuda::native_stream(streams_[0])); }
  ~Capture() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  std::vector<StreamRef> streams_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace lockstep::test
