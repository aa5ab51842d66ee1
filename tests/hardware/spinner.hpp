#pragma once

#include <lockstep/cuda/interop.hpp>

#include "measure.hpp"
#include "reference.hpp"

namespace lockstep::hardware {

/// A kernel that runs on a stream until it is released.
class Spinner {
 public:
  explicit Spinner(const StreamRef& stream) : stream_(stream) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&flag_), sizeof *flag_, cudaHostAllocMapped),
          "cudaHostAlloc");
    *flag_ = 0;
    spin(flag_, cuda::native_stream(stream));
  }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;
  ~Spinner() {
    release();
    stream_.synchronize();
    cudaFreeHost(flag_);
  }

  void release() { *static_cast<volatile int*>(flag_) = 1; }

 private:
  StreamRef stream_;
  int* flag_ = nullptr;
};

}  // namespace lockstep::hardware
