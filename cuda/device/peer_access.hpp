#pragma once

#include <map>
#include <mutex>
#include <utility>

#include <lockstep/device.hpp>

namespace lockstep::cuda {

class CudaMemory;

/// Which pairs of GPUs copy directly between their memory pools, not through the host.
///
/// Each pair is tried once: some machines claim access and deliver wrong bytes, or none. A pair that fails
/// copies through the host, and the log says so. Thread-safe.
class PeerAccess {
 public:
  static PeerAccess& instance();

  struct Side {
    int ordinal;
    const Device& device;
    CudaMemory& memory;
  };
  /// Tries a pair that has not been tried. Waits for small copies. Never throws.
  /// @return whether copies are direct.
  bool prepare(const Side& a, const Side& b) noexcept;

 private:
  std::mutex mutex_;  // guards direct_, and one trial at a time
  std::map<std::pair<int, int>, bool> direct_;
};

}  // namespace lockstep::cuda
