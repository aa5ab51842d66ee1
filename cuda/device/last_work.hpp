#pragma once

#include "device/cuda_device.hpp"

namespace lockstep::cuda {

/// Work of one kind on a GPU, outside captures: each piece follows the last one, whatever their streams. One
/// thread at a time.
class LastWork {
 public:
  /// @param device  outlives this. @throws DeviceError
  explicit LastWork(CudaDevice& device) : device_(device), end_(device.create_event()) {}
  ~LastWork();
  LastWork(const LastWork&) = delete;
  LastWork& operator=(const LastWork&) = delete;

  /// `stream` waits for the last work, unless that is on it. @throws DeviceError
  void follow(backend::StreamHandle stream);
  /// The last work is now what was enqueued on `stream`. @throws DeviceError  its end cannot be marked:
  /// follow() and finish() then wait for all of the device's work.
  void set(backend::StreamHandle stream);
  /// The calling thread waits for the last work.
  void finish() noexcept;

 private:
  void wait_for_device();

  CudaDevice& device_;
  const backend::EventHandle end_;
  backend::StreamHandle stream_{};
  bool is_set_ = false;
  bool is_unmarked_ = false;
};

}  // namespace lockstep::cuda
