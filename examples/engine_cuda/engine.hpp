// What the engine has of its own, and lends to lockstep: an allocator, and NCCL's communicators.
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#if ENGINE_HAS_NCCL
#include <nccl.h>
#endif

namespace engine {

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

// Takes memory of the current GPU once, hands out parts of it, and frees all of it at the end.
class Arena {
 public:
  explicit Arena(std::size_t size_bytes) : size_bytes_(size_bytes) {
    check(cudaMalloc(&memory_, size_bytes));
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { cudaFree(memory_); }

  float* allocate(std::size_t count) {
    constexpr std::size_t kAlignment = 256;
    const std::size_t begin = (used_bytes_ + kAlignment - 1) / kAlignment * kAlignment;
    if (begin + count * sizeof(float) > size_bytes_) throw std::bad_alloc();
    used_bytes_ = begin + count * sizeof(float);
    return reinterpret_cast<float*>(static_cast<std::byte*>(memory_) + begin);
  }

 private:
  void* memory_ = nullptr;
  std::size_t size_bytes_;
  std::size_t used_bytes_ = 0;
};

#if ENGINE_HAS_NCCL
// One communicator for each GPU, in the order of the GPUs.
class Communicators {
 public:
  explicit Communicators(int num_gpus) : handles(static_cast<std::size_t>(num_gpus)) {
    if (ncclCommInitAll(handles.data(), num_gpus, nullptr) != ncclSuccess)
      throw std::runtime_error(std::string("NCCL: ") + ncclGetLastError(nullptr));
  }
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  ~Communicators() {
    for (const ncclComm_t handle : handles) ncclCommDestroy(handle);
  }

  std::vector<ncclComm_t> handles;
};
#endif

}  // namespace engine
