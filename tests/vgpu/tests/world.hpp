// Four devices with a communicator, a stream and two buffers each.
#pragma once

#include <functional>

#include <nccl.h>

#include "check.hpp"

#define NCCL(call) EXPECT(call, ncclSuccess)

constexpr int n = 4;
constexpr std::size_t count = 1000;

static __global__ void add(float* data, std::size_t size, float value) {
  const std::size_t index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < size) data[index] += value;
}

template <class T = float>
struct World {
  std::vector<ncclComm_t> comms = std::vector<ncclComm_t>(n);
  cudaStream_t streams[n];
  T *a[n], *b[n];
  std::size_t size;
  explicit World(std::size_t elements = count * n) : size(elements) {
    NCCL(ncclCommInitAll(comms.data(), n, nullptr));
    for (int d = 0; d < n; ++d) {
      OK(cudaSetDevice(d));
      OK(cudaStreamCreateWithFlags(&streams[d], cudaStreamNonBlocking));
      OK(cudaMalloc(&a[d], size * sizeof(T)));
      OK(cudaMalloc(&b[d], size * sizeof(T)));
    }
  }
  void set(const std::function<T(int, std::size_t)>& value) {
    for (int d = 0; d < n; ++d) {
      std::vector<T> host(size);
      for (std::size_t i = 0; i < size; ++i) host[i] = value(d, i);
      OK(cudaSetDevice(d));
      OK(cudaMemcpyAsync(a[d], host.data(), size * sizeof(T), cudaMemcpyHostToDevice, streams[d]));
      OK(cudaMemsetAsync(b[d], 0xEE, size * sizeof(T), streams[d]));
    }
  }
  void each(const std::function<ncclResult_t(int)>& call) {
    NCCL(ncclGroupStart());
    for (int d = 0; d < n; ++d) NCCL(call(d));
    NCCL(ncclGroupEnd());
  }
  std::vector<T> get(int d, bool second = true) {
    OK(cudaSetDevice(d));
    OK(cudaStreamSynchronize(streams[d]));
    return fetch(second ? b[d] : a[d], size);
  }
  // For what ends in a deadlock or a fault: nothing of it can be cleaned up.
  void abandon() { abandoned_ = true; }
  ~World() {
    if (abandoned_) return;
    for (int d = 0; d < n; ++d) {
      OK(cudaSetDevice(d));
      OK(cudaStreamSynchronize(streams[d]));
      OK(cudaFree(a[d]));
      OK(cudaFree(b[d]));
      OK(cudaStreamDestroy(streams[d]));
      NCCL(ncclCommDestroy(comms[d]));
    }
  }

 private:
  bool abandoned_ = false;
};
