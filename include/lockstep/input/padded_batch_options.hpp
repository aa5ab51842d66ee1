#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/scalar.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// How elements of different lengths become rows of a batch (Dataset::padded_batch).
struct PaddedBatchOptions {
  /// For each component, in the order of the element's leaves, the extents of its rows; nothing: that of the
  /// longest element in the batch. Empty: that of the longest for all.
  std::vector<std::vector<std::optional<std::int64_t>>> padded_shapes{};
  /// For each component what fills the rest of a row. Empty: 0, or false.
  std::vector<Scalar> padding_values{};
  /// Leave out a last batch of fewer rows.
  bool drop_remainder = false;
};

/// Where elements of different lengths go before they become batches (Dataset::bucket_by_sequence_length).
struct BucketOptions {
  /// Ascending: an element of length l goes into the first bucket whose boundary is above l, or into the last
  /// one, of all elements as long as the last boundary, or longer.
  std::vector<std::int64_t> boundaries;
  /// The rows of a batch of each bucket: one more than there are boundaries.
  std::vector<std::int64_t> batch_sizes;
  /// Extents that padded_batch.padded_shapes leaves open, of every axis, are the bucket's boundary less one,
  /// and not those of the longest element. Elements of the last bucket then have no room, and throw.
  bool pad_to_boundary = false;
  PaddedBatchOptions padded_batch{};
};

}  // namespace lockstep

#pragma GCC visibility pop
