#pragma once

#include <lockstep/input/auto_shard_policy.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/input_context.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// One input pipeline's share of a dataset, not split over replicas. Together the shares are the whole; with
/// AutoShardPolicy::off each share is the dataset itself. With ::hint it is too, but that
/// `.shard(Dataset::shard_hint, Dataset::shard_hint)` in it is a shard for each input pipeline.
///
/// Files are shared out below every transformation; zipped and concatenated datasets must all come from
/// `from_files`. Zipped ones pair the rows of the whole where their files have equal numbers of rows.
///
/// Where elements are shared out, by ::data or ::hint, a shuffle before it needs a seed: without one `next`
/// throws InvalidArgument.
///
/// With fewer files or elements than pipelines, a share that has some throws InvalidArgument on its first
/// `next`, since another has none. `automatic` warns in the log, once for each dataset,
/// where it falls back to elements.
/// @throws NotFound  AutoShardPolicy::file, several pipelines, and a source that is not `from_files`.
template <class E>
[[nodiscard]] TypedDataset<E> auto_shard(const TypedDataset<E>& dataset, const InputContext& context,
                                         AutoShardPolicy policy = AutoShardPolicy::automatic) {
  return TypedDataset<E>(detail::auto_sharded(dataset.pipeline(), context, policy));
}

}  // namespace lockstep

#pragma GCC visibility pop
