#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// How a dataset is shared out over workers. It also decides how `distribute_dataset` splits a batch over
/// replicas: by ceiling slices of each batch as it comes where elements are dealt out (data, and automatic
/// where no files are read), else by balanced sizes (balanced_batch_sizes), if the batch size is known.
enum class AutoShardPolicy : std::int8_t {
  off = -1,   ///< Every worker reads everything.
  automatic,  ///< By file where the dataset reads files, else by data, with a warning.
  file,       ///< Each worker reads its share of the files: worker w of W files w, w + W, …
  data,       ///< Every worker reads everything and keeps elements w, w + W, …
  hint,       ///< The user shards it: shard(Dataset::shard_hint, Dataset::shard_hint) gets (W, w).
};

[[nodiscard]] std::string_view name(AutoShardPolicy policy);
std::ostream& operator<<(std::ostream& out, AutoShardPolicy policy);

}  // namespace lockstep

#pragma GCC visibility pop
