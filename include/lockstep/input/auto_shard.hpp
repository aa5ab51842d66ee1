#pragma once

#include <lockstep/input/auto_shard_policy.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/input_context.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// One input pipeline's share of a dataset, not split over replicas. The shares together are the whole
/// dataset. With AutoShardPolicy::off each share is the dataset itself. With `hint` it is too, except that
/// each `.shard(Dataset::shard_hint, Dataset::shard_hint)` in it becomes one shard for each input pipeline.
///
/// Files are shared out before every transformation; all zipped and concatenated datasets must then come from
/// `from_files`. Zipped datasets pair the same rows as the whole dataset does if their files have equal
/// numbers of rows.
///
/// If elements are shared out, by `data` or `hint`, a shuffle before the sharing needs a seed: without one
/// `next` throws InvalidArgument.
///
/// If there are fewer files or elements than pipelines, some shares are empty; a share that is not then
/// throws InvalidArgument on its first `next`. `automatic` warns in the log, once for each dataset, when it
/// falls back to elements.
/// @throws NotFound  AutoShardPolicy::file with several pipelines, and a source is not `from_files`.
template <class E>
[[nodiscard]] TypedDataset<E> auto_shard(const TypedDataset<E>& dataset, const InputContext& context,
                                         AutoShardPolicy policy = AutoShardPolicy::automatic) {
  return TypedDataset<E>(detail::auto_sharded(dataset.pipeline(), context, policy));
}

}  // namespace lockstep

#pragma GCC visibility pop
