#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/element.cuh"
#include "kernels/launch.hpp"

/// Exchanging through shared memory what is loaded 16 bytes at a time, whatever the address.
namespace lockstep::cuda {

/// Vectors that hold kStagedBytes, wherever they begin.
inline constexpr int kStagedVectors = kStagedBytes / 16 + 1;

struct ByteRange {
  const std::byte* begin;
  const std::byte* end;
};

/// 16 bytes, of which those outside of the array are 0, one by one.
inline __device__ uint4 load_edge(const ByteRange& array, const std::byte* address) {
  std::uint64_t low = 0, high = 0;
#pragma unroll 1
  for (int i = 15; i >= 0; --i) {
    high = high << 8 | low >> 56;
    low <<= 8;
    if (address + i >= array.begin && address + i < array.end) low |= static_cast<std::uint64_t>(address[i]);
  }
  return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
          static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
}

/// The 16 bytes at a multiple of 16, of which one at least lies in the array.
inline __device__ uint4 load_whole(const ByteRange& array, const std::byte* address) {
  if (address < array.begin || address + 16 > array.end) return load_edge(array, address);
  return *reinterpret_cast<const uint4*>(address);
}

/// Loads `size` bytes of the array to shared memory, where they begin `begin % 16` bytes after `staged`. All
/// threads of the block call it together, and synchronise before they read.
/// @tparam kInFlight  loads of a thread that are on their way together.
template <int kBlock, int kInFlight = kStagedBytes / 16 / kBlock>
__device__ void stage_bytes(const ByteRange& array, const std::byte* begin, int size, uint4* staged) {
  const int shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16);
  const int num_vectors = (shift + size + 15) / 16;
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < num_vectors; first += kInFlight * kBlock) {
    uint4 batch[kInFlight];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u)
      if (const int v = first + u * kBlock; v < num_vectors)
        batch[u] = load_whole(array, begin - shift + v * 16);
#pragma unroll
    for (int u = 0; u < kInFlight; ++u)
      if (const int v = first + u * kBlock; v < num_vectors) staged[v] = batch[u];
  }
}

/// The 16 bytes of shared memory that begin `shift` bytes after `vector`. @pre shift < 16
inline __device__ uint4 load_staged(const uint4* vector, unsigned shift) {
  if (shift == 0) return *vector;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(vector) + shift / 4;
  const unsigned bits = 8 * (shift % 4);
  return {__funnelshift_r(words[0], words[1], bits), __funnelshift_r(words[1], words[2], bits),
          __funnelshift_r(words[2], words[3], bits),
          bits == 0 ? words[3] : __funnelshift_r(words[3], words[4], bits)};
}

/// Stores `size` bytes, which begin `shift` bytes after `staged`, at any address, each sector of 32 bytes by
/// one warp.
template <int kBlock>
__device__ void store_staged(std::byte* to, int size, const uint4* staged, int shift) {
  const int head = min(size, static_cast<int>((32 - reinterpret_cast<std::uintptr_t>(to) % 32) % 32));
  const int in_vectors = (size - head) / 32 * 32;
  for (int v = static_cast<int>(threadIdx.x); v < in_vectors / 16; v += kBlock) {
    const int at = shift + head + v * 16;
    *reinterpret_cast<uint4*>(to + head + v * 16) =
        load_staged(staged + at / 16, static_cast<unsigned>(at % 16));
  }
  for (int i = static_cast<int>(threadIdx.x); i < size - in_vectors; i += kBlock) {
    const int at = i < head ? i : i + in_vectors;
    to[at] = reinterpret_cast<const std::byte*>(staged)[shift + at];
  }
}

// ---- On the host ----

/// The threads of a warp for a row, `per_lane` elements each.
inline std::int64_t lanes_for(std::int64_t columns, std::int64_t per_lane) {
  const std::int64_t lanes = std::clamp<std::int64_t>((columns + per_lane - 1) / per_lane, 1, 32);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(lanes)));
}

/// The rows that a block stages at once: `least` give its threads work, and where there are enough blocks it
/// takes more. @pre row_bytes <= kStagedBytes
inline std::int64_t rows_per_block(std::int64_t rows, std::int64_t row_bytes, std::int64_t least) {
  constexpr std::int64_t kManyBlocks = 1024;
  const std::int64_t most = kStagedBytes / std::max<std::int64_t>(row_bytes, 1);
  const std::int64_t wanted = std::clamp(rows / kManyBlocks, std::min(least, most), most);
  return wanted < 16 ? wanted : wanted / 16 * 16;  // so that blocks' parts begin at multiples of 16 bytes
}

}  // namespace lockstep::cuda
