#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "input/pipeline/pipeline.hpp"
#include "input/statistics/measured_iterator.hpp"

/// Derives one pipeline from another in such a way that the derivation can be repeated for a shard of the
/// input.
namespace lockstep::detail {

/// Lets `rebuild` make `result` anew for a shard of its input.
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

/// Makes the pipeline, a copy of its input, the result of a call. What the call does not say is added after
/// that.
inline void add_stage(Pipeline& result, std::string text) {
  result.stage = std::make_shared<Stage>(Stage{std::move(text), {result.stage}});
}

/// The pipeline with this shard in place of its hints; the same pipeline if it has none.
inline PipelineHandle with_hints(const PipelineHandle& input, std::int64_t num_shards, std::int64_t index) {
  return input->fill_hints ? input->fill_hints(num_shards, index) : input;
}

/// The user's seed or, without one, one that is drawn: another in each program. A state has the latter, so
/// that the passes after a restored one have the orders that they would have had.
class Seed {
 public:
  explicit Seed(std::optional<std::uint64_t> given);
  bool is_given() const noexcept { return drawn_ == nullptr; }
  std::uint64_t value() const noexcept { return drawn_ ? drawn_->load() : given_; }
  /// Lets the states of the pipeline's passes have it.
  void keep_in(Pipeline& pipeline) const;

 private:
  std::uint64_t given_ = 0;
  std::shared_ptr<std::atomic<std::uint64_t>> drawn_;  // owners: the pipelines of it; null: it is given
};

inline constexpr auto kUnchanged = [](Pipeline&) {};

/// A pipeline whose passes are `wrap(open, key)`, over the passes that the IteratorFactory `open` opens: over
/// elements, batches or row numbers. `edit` changes the result. @param stage  Stage::text.
template <class Wrap, class Edit = decltype(kUnchanged)>
PipelineHandle with_iterators(const PipelineHandle& input, const std::string& stage, const Wrap& wrap,
                              const Edit& edit = kUnchanged) {
  const auto wrapped = [&]<class T>(const IteratorFactory<T>& open) -> IteratorFactory<T> {
    const IteratorFactory<T> input_pass = [open, stage = input->stage](const IterationKey& key) {
      return open_measured<T>(key, stage, [&] { return open(key); });
    };
    return [input_pass, wrap](const IterationKey& key) { return wrap(input_pass, key); };
  };
  Pipeline result = *input;
  std::visit(
      // With a deduced return type clang 14 emits no functions of the iterators.
      [&]<class T>(T& elements) -> void {
        if constexpr (std::is_same_v<T, TableRows>)
          elements.open = wrapped(elements.open);
        else
          elements = wrapped(elements);
      },
      result.elements);
  add_stage(result, stage);
  edit(result);
  return with_shards(std::move(result), input, [stage, wrap, edit](const PipelineHandle& shard) {
    return with_iterators(shard, stage, wrap, edit);
  });
}

/// A pipeline whose passes are `open(input, key)`. `edit` changes the result. @param stage  as in
/// Stage::text.
template <class T = FlatElement, class Open, class Edit = decltype(kUnchanged)>
PipelineHandle with_elements(const PipelineHandle& input, const std::string& stage, const Open& open,
                             const Edit& edit = kUnchanged) {
  Pipeline result = *input;
  result.elements = IteratorFactory<T>([input, open](const IterationKey& key) {
    constexpr bool is_same_number = std::is_same_v<T, FlatElement>;  // else rows are shuffled as batches
    return open(input, is_same_number ? key : key.shuffled(0));
  });
  add_stage(result, stage);
  edit(result);
  return with_shards(std::move(result), input, [stage, open, edit](const PipelineHandle& shard) {
    return with_elements<T>(shard, stage, open, edit);
  });
}

/// Sets the type of elements that a function makes.
inline void set_type(Pipeline& result, const ElementType& type) {
  result.spec.assign(type.num_leaves, TensorSpec::unknown());
  result.type = type;
  if (type.learned) result.stage->learned.push_back(type.learned);
}

/// An `edit` after which the passes of all transformations are counted separately for this shard.
inline auto count_as_shard(std::int64_t num_shards, std::int64_t index) {
  return [=](Pipeline& result) {
    if (num_shards == 1) return;  // a single shard is the whole
    const auto mark = [&](std::uint64_t shard) {
      return mix(mix(shard, static_cast<std::uint64_t>(num_shards)), static_cast<std::uint64_t>(index));
    };
    result.shard = mark(result.shard);
    for (IterationCount& count : result.counts) count.shard = mark(count.shard);
  };
}

/// An `edit` after which `counter` counts the passes of the transformation.
inline auto count_iterations(const std::shared_ptr<IterationCounter>& counter) {
  return [counter](Pipeline& result) {
    result.counts.push_back({counter, result.shard});
    ++result.position;
  };
}

}  // namespace lockstep::detail
