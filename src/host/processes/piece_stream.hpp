#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::host {

/// Pieces of memory that travel as one stream of bytes: laid end to end, each from a multiple of 16 bytes on,
/// so that no element is cut where the stream is cut at such a multiple.
class PieceStream {
 public:
  void clear() noexcept {
    begins_.clear();
    ends_.clear();
  }
  void add(std::int64_t size_bytes) {
    begins_.push_back((this->size_bytes() + 15) / 16 * 16);
    ends_.push_back(begins_.back() + size_bytes);
  }
  std::int64_t size_bytes() const noexcept { return ends_.empty() ? 0 : ends_.back(); }

  /// Calls `work(piece, begin_bytes, end_bytes, at)` for the parts of pieces that are in the stream's bytes
  /// from begin to end; `at` is how far behind begin the part is.
  template <class Work>
  void for_each_part(std::int64_t begin, std::int64_t end, const Work& work) const {
    auto piece = static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
    for (; piece < begins_.size() && begins_[piece] < end; ++piece) {
      const std::int64_t from = std::max(begin, begins_[piece]), to = std::min(end, ends_[piece]);
      if (from < to) work(piece, from - begins_[piece], to - begins_[piece], from - begin);
    }
  }

 private:
  std::vector<std::int64_t> begins_, ends_;  // of the pieces
};

}  // namespace lockstep::host
