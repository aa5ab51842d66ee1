#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/cuda_memory.hpp"
#include "kernels/launch.hpp"

namespace lockstep::cuda {

/// Device memory for the length of one call, from the GPU's pool, freed in stream order. Move only.
class Temporary {
 public:
  Temporary() = default;
  Temporary(const Place& place, std::int64_t size_bytes)
      : memory_(&place.memory),
        data_(place.memory.allocate(static_cast<std::size_t>(size_bytes), place.stream, place.device)),
        size_bytes_(static_cast<std::size_t>(size_bytes)),
        stream_(place.stream) {}
  Temporary(Temporary&& other) noexcept { *this = std::move(other); }
  Temporary& operator=(Temporary&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Temporary() {
    if (data_ != nullptr) memory_->deallocate(data_, size_bytes_, stream_);
  }

  /// Null: there is none.
  void* data() const { return data_; }

 private:
  CudaMemory* memory_ = nullptr;
  void* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace lockstep::cuda
