#pragma once

#include <map>
#include <mutex>
#include <utility>

#include <lockstep/device.hpp>

namespace lockstep::cuda {

class CudaMemory;

/// Which pairs of GPUs copy straight from one's memory pool to the other's, not by way of the host.
///
/// A pair is asked and then tried, once: some machines claim access and deliver wrong bytes, or none. What
/// fails keeps the way by the host, and a note on standard error says so. Thread-safe.
class PeerAccess {
 public:
  static PeerAccess& instance();

  struct Side {
    int ordinal;
    const Device& device;
    CudaMemory& memory;
  };
  /// Decides about a pair unless that is done. Waits for small copies. Never throws.
  /// @return whether copies go straight.
  bool prepare(const Side& a, const Side& b) noexcept;

 private:
  std::mutex mutex_;  // guards direct_, and one trial at a time
  std::map<std::pair<int, int>, bool> direct_;
};

}  // namespace lockstep::cuda
