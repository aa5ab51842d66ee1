#pragma once

#include <cstdint>

#include "host/host_tiles.hpp"

namespace lockstep::host {

/// Prefetches rows in the order of memory, whatever the order in which they are combined. Without it an AMD
/// EPYC reads four rows at a time at 0.7 of the rate of one row; with it, at 0.9 to 0.97.
template <class C>
class RowsAhead {
 public:
  RowsAhead(const TileReader<C>& reader, std::int64_t start, std::int64_t n, std::int64_t stride)
      : at_(reader.address(start)),
        row_end_(reader.address(start + n)),
        row_bytes_(reader.address(start + stride) - at_),
        gap_bytes_(reader.address(start + stride) - row_end_) {}

  /// Prefetches the next n elements.
  void prefetch(std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(at_));
      at_ += kLineBytes;
      if (at_ < row_end_) continue;
      at_ += gap_bytes_;
      row_end_ += row_bytes_;
    }
  }

 private:
  static constexpr std::uintptr_t kLineBytes = 64;
  static constexpr std::int64_t kLine = kLineBytes / sizeof(C);

  std::uintptr_t at_, row_end_, row_bytes_, gap_bytes_;
};

}  // namespace lockstep::host
