#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/device.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// Host memory for tensors on their way between devices and files: page-locked for those of a GPU, which
/// copies from and to it at its full rate, and kept until the next time. One thread at a time.
class Staging {
 public:
  /// @pre nothing uses the tensors that were made before, and no copy from them is under way.
  void clear() noexcept;
  /// To be called for all tensors first, so that there is one piece of memory for each device.
  void plan(const Device& device, std::int64_t num_bytes);
  /// A tensor on the host, uninitialised, for one of `device` that was planned. It stays until clear, and for
  /// a CPU as long as it is held. @throws OutOfMemory
  Tensor make(const Device& device, const Shape& shape, DType dtype);
  /// The tensor itself where it is on CPU:0, else a copy in memory of make. Waits for the device.
  Tensor on_host(const Tensor& tensor);

 private:
  struct Area {
    Device device;
    std::size_t planned = 0, used = 0;
    PinnedBuffer memory{};
  };
  Area& area_of(const Device& device);

  std::vector<Area> areas_;
};

/// All of them on the host, contiguous. @pre the staging is clear; it outlives the result.
std::map<std::string, Tensor> on_host(std::map<std::string, Tensor> tensors, Staging& staging);

}  // namespace lockstep::detail
