#include "exec/counts.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace vgpu {

void Counts::add(const Counts& other) {
  launches += other.launches;
  threads += other.threads;
  instructions += other.instructions;
  barriers += other.barriers;
  atomics += other.atomics;
  loads += other.loads;
  stores += other.stores;
  bytes_loaded += other.bytes_loaded;
  bytes_stored += other.bytes_stored;
  sectors_loaded += other.sectors_loaded;
  sectors_stored += other.sectors_stored;
}

void Counts::add_access(const std::uint64_t* address, std::uint32_t mask, std::size_t bytes, bool write) {
  std::array<std::uint64_t, 64> sectors;  // a lane's bytes lie in two at most
  std::size_t size = 0, lanes = 0;
  for (; mask != 0; mask &= mask - 1) {
    const std::uint64_t first = address[std::countr_zero(mask)];
    if (first >> 56 != 0) continue;
    ++lanes;
    for (std::uint64_t s = first / kSectorBytes; s <= (first + bytes - 1) / kSectorBytes; ++s)
      if (size == 0 || sectors[size - 1] != s) sectors[size++] = s;
  }
  if (lanes == 0) return;
  const auto end = sectors.begin() + static_cast<std::ptrdiff_t>(size);
  if (!std::is_sorted(sectors.begin(), end)) {
    std::sort(sectors.begin(), end);
    size = static_cast<std::size_t>(std::unique(sectors.begin(), end) - sectors.begin());
  }
  (write ? stores : loads) += 1;
  (write ? bytes_stored : bytes_loaded) += lanes * bytes;
  (write ? sectors_stored : sectors_loaded) += size;
}

void Counts::add_span(std::uint64_t address, std::size_t bytes, bool write) {
  if (bytes == 0) return;
  (write ? bytes_stored : bytes_loaded) += bytes;
  (write ? sectors_stored : sectors_loaded) +=
      (address + bytes - 1) / kSectorBytes - address / kSectorBytes + 1;
}

}  // namespace vgpu
