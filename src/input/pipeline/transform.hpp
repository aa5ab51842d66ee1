#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <variant>

#include "input/pipeline/pipeline.hpp"

/// How one pipeline is made of another, so that the same can be done again with a part of it.
namespace lockstep::detail {

/// `result`, which `rebuild` makes of its input, also where that is made again for a shard.
template <class Rebuild>
PipelineHandle with_shards(Pipeline&& result, const PipelineHandle& input, const Rebuild& rebuild) {
  const auto again = [&](const Resharding& reshard) -> Resharding {
    if (!reshard) return nullptr;
    return [reshard, rebuild](std::int64_t num_shards, std::int64_t index) {
      return rebuild(reshard(num_shards, index));
    };
  };
  result.shard_files = again(input->shard_files);
  result.fill_hints = again(input->fill_hints);
  return std::make_shared<const Pipeline>(std::move(result));
}

/// The pipeline with this shard where it has hints; itself where it has none.
inline PipelineHandle with_hints(const PipelineHandle& input, std::int64_t num_shards, std::int64_t index) {
  return input->fill_hints ? input->fill_hints(num_shards, index) : input;
}

inline constexpr auto kUnchanged = [](Pipeline&) {};

/// The pipeline with `wrap(open, key)`, a pass over what the IteratorFactory opens, as its passes: over its
/// elements, its batches or its numbers of rows; and changed by `edit`.
template <class Wrap, class Edit = decltype(kUnchanged)>
PipelineHandle with_passes(const PipelineHandle& input, const Wrap& wrap, const Edit& edit = kUnchanged) {
  const auto wrapped = [&]<class T>(const IteratorFactory<T>& open) -> IteratorFactory<T> {
    return [open, wrap](const IterationKey& key) { return wrap(open, key); };
  };
  Pipeline result = *input;
  std::visit(
      [&]<class T>(T& elements) -> void {  // deduced, clang 14 emits no functions of the passes
        if constexpr (std::is_same_v<T, TableRows>)
          elements.open = wrapped(elements.open);
        else
          elements = wrapped(elements);
      },
      result.elements);
  edit(result);
  return with_shards(std::move(result), input,
                     [wrap, edit](const PipelineHandle& shard) { return with_passes(shard, wrap, edit); });
}

/// The pipeline with `open(input, key)` as its passes, and changed by `edit`.
template <class T = FlatElement, class Open, class Edit = decltype(kUnchanged)>
PipelineHandle with_elements(const PipelineHandle& input, const Open& open, const Edit& edit = kUnchanged) {
  Pipeline result = *input;
  result.elements = IteratorFactory<T>([input, open](const IterationKey& key) { return open(input, key); });
  edit(result);
  return with_shards(std::move(result), input, [open, edit](const PipelineHandle& shard) {
    return with_elements<T>(shard, open, edit);
  });
}
/// An `edit` after which the passes of all transformations are counted for this shard apart.
inline auto count_as_shard(std::int64_t num_shards, std::int64_t index) {
  return [=](Pipeline& result) {
    if (num_shards == 1) return;  // the whole
    const auto mark = [&](std::uint64_t shard) {
      return mix(mix(shard, static_cast<std::uint64_t>(num_shards)), static_cast<std::uint64_t>(index));
    };
    result.shard = mark(result.shard);
    for (IterationCount& count : result.counts) count.shard = mark(count.shard);
  };
}

/// An `edit` after which the passes of the transformation are counted, by `counter`.
inline auto count_passes(const std::shared_ptr<IterationCounter>& counter) {
  return [counter](Pipeline& result) {
    result.counts.push_back({counter, result.shard});
    ++result.position;
  };
}

}  // namespace lockstep::detail
