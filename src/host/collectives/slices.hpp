#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/backend/communicator_backend.hpp>

namespace lockstep::host {

/// Bytes of what `segment.count` counts.
inline std::int64_t bytes_of(const backend::Segment& segment) {
  return segment.count * static_cast<std::int64_t>(size_of(segment.dtype));
}
inline std::int64_t total_bytes(std::span<const backend::Segment> batch) {
  std::int64_t bytes = 0;
  for (const backend::Segment& segment : batch) bytes += bytes_of(segment);
  return bytes;
}

/// Lays `num_pieces` pieces of memory end to end, cuts the whole into one slice for each rank, and calls
/// `work(piece, begin_bytes, end_bytes)` for the parts of pieces that fall into `rank`'s slice.
///
/// Cuts are at multiples of a cache line from the start of a piece, so that no two threads write one line and
/// no element is cut. Slices are not smaller than a few lines: a short message is one thread's work.
template <class BytesOf, class Work>
void for_each_part(std::size_t num_pieces, const BytesOf& bytes_of, int rank, int num_ranks,
                   const Work& work) {
  constexpr std::int64_t kLine = 64;
  constexpr std::int64_t kMinLines = 8;
  const auto lines_of = [&](std::size_t piece) { return (bytes_of(piece) + kLine - 1) / kLine; };

  std::int64_t num_lines = 0;
  for (std::size_t piece = 0; piece < num_pieces; ++piece) num_lines += lines_of(piece);
  const std::int64_t lines_per_rank = std::max((num_lines + num_ranks - 1) / num_ranks, kMinLines);
  const std::int64_t begin = rank * lines_per_rank;
  const std::int64_t end = begin + lines_per_rank;

  std::int64_t first = 0;  // line at which the piece starts
  for (std::size_t piece = 0; piece < num_pieces && first < end; ++piece) {
    const std::int64_t last = first + lines_of(piece);
    if (last > begin) {
      const std::int64_t begin_bytes = (std::max(begin, first) - first) * kLine;
      const std::int64_t end_bytes = std::min((end - first) * kLine, bytes_of(piece));
      if (begin_bytes < end_bytes) work(piece, begin_bytes, end_bytes);
    }
    first = last;
  }
}

}  // namespace lockstep::host
