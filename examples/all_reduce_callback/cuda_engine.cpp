// The engine on the machine's GPUs, with memory and streams of its own. Nothing waits but the engine, when it
// reads a layer's result.
#include <cstddef>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "lockstep_all_reduce.hpp"

namespace {

constexpr std::size_t kBytes = engine::kRows * sizeof(float);

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

cudaStream_t stream_of(const engine::Part& part) { return static_cast<cudaStream_t>(part.stream); }

}  // namespace

int main() {
  int num_ranks = 0;
  check(cudaGetDeviceCount(&num_ranks));
  const engine::AllReduce& callback = lockstep_all_reduce;
  void* const context = callback.init(/*on_gpus=*/true, num_ranks);
  if (context == nullptr) return 1;
  std::vector<engine::Part> parts;
  for (int rank = 0; rank < num_ranks; ++rank) {
    check(cudaSetDevice(rank));
    void* data = nullptr;
    cudaStream_t stream = nullptr;
    check(cudaMalloc(&data, kBytes));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    parts.push_back({static_cast<float*>(data), engine::kRows, stream});
  }

  bool right = true;
  for (int layer = 1; layer <= engine::kLayers; ++layer) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      const engine::Part& part = parts[static_cast<std::size_t>(rank)];
      const std::vector<float> result = engine::multiply(layer, rank, num_ranks);
      check(cudaSetDevice(rank));
      check(cudaMemcpyAsync(part.data, result.data(), kBytes, cudaMemcpyHostToDevice, stream_of(part)));
    }
    right = callback.all_reduce(context, parts.data()) && right;
    for (const engine::Part& part : parts) {
      std::vector<float> sum(engine::kRows);
      check(cudaMemcpyAsync(sum.data(), part.data, kBytes, cudaMemcpyDeviceToHost, stream_of(part)));
      check(cudaStreamSynchronize(stream_of(part)));
      right = right && sum == engine::multiply(layer, 0, 1);
    }
  }

  for (const engine::Part& part : parts) {
    check(cudaFree(part.data));
    check(cudaStreamDestroy(stream_of(part)));
  }
  callback.free(context);
  std::cout << engine::kLayers << " layers on " << num_ranks << " GPUs: " << (right ? "right" : "wrong")
            << '\n';
  return right ? 0 : 1;
}
