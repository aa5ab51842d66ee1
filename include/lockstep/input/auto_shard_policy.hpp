#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// How workers share a dataset. The policy also decides how `distribute_dataset` splits a batch over
/// replicas: if elements are shared out (data, and automatic if no files are read) or the batch size is
/// unknown, into ceiling slices of each batch; otherwise into balanced sizes (balanced_batch_sizes).
enum class AutoShardPolicy : std::int8_t {
  off = -1,   ///< Every worker reads the whole dataset.
  automatic,  ///< By file if the dataset reads files, else by data, with a warning.
  file,       ///< Each worker reads its share of the files: worker w of W files w, w + W, …
  data,       ///< Every worker reads the whole dataset and keeps elements w, w + W, …
  hint,       ///< The user shards the dataset: shard(Dataset::shard_hint, Dataset::shard_hint) gets (W, w).
};

[[nodiscard]] std::string_view name(AutoShardPolicy policy);
std::ostream& operator<<(std::ostream& out, AutoShardPolicy policy);

}  // namespace lockstep

#pragma GCC visibility pop
