#pragma once

#include <cstdint>
#include <string>

namespace lockstep::bench {

/// What a process's threads and virtual GPUs have done.
struct Work {
  std::int64_t sectors = 0;   ///< Of 32 bytes, loaded and stored.
  std::int64_t accesses = 0;  ///< Loads and stores of warps, with up to 512 bytes each.
  std::int64_t launches = 0;  ///< Of kernels, the libraries' included.
  std::int64_t calls = 0;     ///< Of the CUDA runtime, NCCL and cuBLAS.
  std::int64_t waits = 0;     ///< Of these, those that wait for a device or may.
};

/// Refuses --count where nothing counts. @throws OptionError  the GPUs are real ones.
void require_counting();

/// A range of what virtual GPUs count (tests/vgpu), in several parts. One thread of the process uses it.
/// @pre require_counting() does not throw.
class Counting {
 public:
  Counting();
  /// Work that all threads enqueue from now on until end() counts.
  void begin() const;
  void end() const;
  /// @pre that work is done.
  Work work() const;

 private:
  std::string range_;
};

}  // namespace lockstep::bench
