// What kernels and copies do: instructions, and traffic with global memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vgpu {

// Global memory moves in sectors.
inline constexpr std::uint64_t kSectorBytes = 32;

struct Counts {
  std::uint64_t launches = 0, threads = 0;
  std::uint64_t instructions = 0;  // of warps
  std::uint64_t barriers = 0;      // of blocks, once for all threads that meet
  std::uint64_t atomics = 0;       // updates of global memory, of which each lane makes its own
  // Of global memory, without atomics. A warp's instruction moves each sector that its lanes touch once,
  // whatever they ask of it; caches are not modelled, so that a sector that another instruction moves counts
  // again.
  std::uint64_t loads = 0, stores = 0;  // instructions of warps
  std::uint64_t bytes_loaded = 0, bytes_stored = 0;
  std::uint64_t sectors_loaded = 0, sectors_stored = 0;

  void add(const Counts& other);
  // One instruction of the lanes in `mask`, each with `bytes` at its address. Lanes in other windows than
  // global memory's (see ir.hpp) count nothing.
  void add_access(const std::uint64_t* address, std::uint32_t mask, std::size_t bytes, bool write);
  // Bytes in a row, as a copy engine moves them.
  void add_span(std::uint64_t address, std::size_t bytes, bool write);
};

}  // namespace vgpu
