#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include <cuda_runtime_api.h>

namespace lockstep::cuda {

/// The process's events whose last record is in a capture. CUDA breaks a capture when it is asked about its
/// events. Thread-safe.
class CapturedEvents {
 public:
  static CapturedEvents& instance();

  /// `event` was recorded in the capture with this number; 0: it was recorded outside captures, or destroyed.
  void note(cudaEvent_t event, unsigned long long capture);
  /// 0: it was recorded outside captures, or never.
  unsigned long long capture_of(cudaEvent_t event);

 private:
  std::atomic<bool> is_empty_{true};
  std::mutex mutex_;  // guards captures_
  std::map<cudaEvent_t, unsigned long long> captures_;
};

}  // namespace lockstep::cuda
