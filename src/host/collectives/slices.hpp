#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/backend/communicator_backend.hpp>

namespace lockstep::host {

inline std::int64_t total_bytes(std::span<const backend::Segment> batch) {
  std::int64_t bytes = 0;
  for (const backend::Segment& segment : batch) bytes += bytes_of(segment);
  return bytes;
}

/// Divides the work on several pieces of memory, laid end to end, into one slice for each rank, and each
/// slice into chunks, which other threads take over when a rank's own thread is late.
///
/// Slices consist of cache lines counted from the start of a piece, so that no two threads write one line and
/// no element is cut. A slice has at least a few lines: a single thread handles a short message.
class Slices {
 public:
  template <class BytesOf>
  Slices(std::size_t num_pieces, const BytesOf& bytes_of, int num_ranks) {
    for (std::size_t piece = 0; piece < num_pieces; ++piece) num_lines_ += lines_of(bytes_of(piece));
    lines_per_slice_ = std::max((num_lines_ + num_ranks - 1) / num_ranks, kMinLines);
    chunks_per_slice_ = (lines_per_slice_ + kChunkLines - 1) / kChunkLines;
  }

  std::int64_t chunks_per_slice() const { return chunks_per_slice_; }
  /// The slices of ranks beyond this number are empty.
  int num_slices() const { return static_cast<int>((num_lines_ + lines_per_slice_ - 1) / lines_per_slice_); }

  /// Calls `work(piece, begin_bytes, end_bytes)` for the parts of pieces that fall into a chunk of `rank`'s
  /// slice.
  template <class BytesOf, class Work>
  void for_each_part(std::size_t num_pieces, const BytesOf& bytes_of, int rank, std::int64_t chunk,
                     const Work& work) const {
    const std::int64_t begin = rank * lines_per_slice_ + chunk * kChunkLines;
    const std::int64_t end = std::min(begin + kChunkLines, (rank + 1) * lines_per_slice_);
    std::int64_t first = 0;  // line at which the piece starts
    for (std::size_t piece = 0; piece < num_pieces && first < end; ++piece) {
      const std::int64_t last = first + lines_of(bytes_of(piece));
      if (last > begin) {
        const std::int64_t begin_bytes = (std::max(begin, first) - first) * kLine;
        const std::int64_t end_bytes = std::min((end - first) * kLine, bytes_of(piece));
        if (begin_bytes < end_bytes) work(piece, begin_bytes, end_bytes);
      }
      first = last;
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  static constexpr std::int64_t kMinLines = 8;
  // 256 KiB of each buffer take about 100 us, which is much longer than taking a chunk, and shorter than the
  // delay of a thread without a core.
  static constexpr std::int64_t kChunkLines = (std::int64_t{256} << 10) / kLine;

  static std::int64_t lines_of(std::int64_t bytes) { return (bytes + kLine - 1) / kLine; }

  std::int64_t num_lines_ = 0;
  std::int64_t lines_per_slice_ = 0;
  std::int64_t chunks_per_slice_ = 0;
};

}  // namespace lockstep::host
