#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/iterators/combined_iterators.hpp"
#include "input/pipeline/element_error.hpp"
#include "input/pipeline/transform.hpp"

namespace lockstep::detail {
namespace {

/// The spec that holds for tensors of either kind.
TensorSpec common_spec(const TensorSpec& a, const TensorSpec& b) {
  if (!a.is_known || !b.is_known || a.rank() != b.rank()) return TensorSpec::unknown();
  TensorSpec common = a;
  for (std::size_t axis = 0; axis < a.extents.size(); ++axis)
    if (a.extents[axis] != b.extents[axis]) common.extents[axis].reset();
  return common;
}

std::vector<TensorSpec> common_spec(std::string_view what, const std::vector<TensorSpec>& a,
                                    const std::vector<TensorSpec>& b) {
  if (a.empty() || b.empty()) return {};
  LOCKSTEP_EXPECTS(a.size() == b.size(), InvalidArgument, what, ": the elements of one dataset have ",
                   a.size(), " components, those of another ", b.size(),
                   ". Give all elements the same structure.");
  std::vector<TensorSpec> common;
  for (std::size_t i = 0; i < a.size(); ++i) {
    LOCKSTEP_EXPECTS(!a[i].is_known || !b[i].is_known || a[i].dtype == b[i].dtype, InvalidArgument, what,
                     ": component ", i, " of one dataset's elements is ", a[i], ", of another's ", b[i],
                     ". Make the dtypes the same, as map with cast does.");
    common.push_back(common_spec(a[i], b[i]));
  }
  return common;
}

/// The type of elements of either dataset. @throws InvalidArgument  their structures are known and differ.
ElementType common_type(std::string_view what, const ElementType& first, const ElementType& second) {
  if (first.num_leaves > 0 && second.num_leaves > 0) {
    check_structures(what, first.text(), second.text());
    return first;
  }
  ElementType type = first;
  type.num_leaves = 0;
  type.structure = [a = first.structure, b = second.structure] {
    std::any structure = a();
    return structure.has_value() ? structure : b();
  };
  type.text = [a = first.text, b = second.text] {
    std::string text = a();
    return text.empty() ? b() : text;
  };
  return type;
}

/// The cardinality of one dataset's elements followed by another's.
std::int64_t sum_of_cardinalities(std::int64_t a, std::int64_t b) {
  if (a == kInfiniteCardinality || b == kInfiniteCardinality) return kInfiniteCardinality;
  std::int64_t sum = 0;
  const bool is_unknown = a == kUnknownCardinality || b == kUnknownCardinality;
  return is_unknown || __builtin_add_overflow(a, b, &sum) ? kUnknownCardinality : sum;
}

/// The cardinality of the shortest input.
std::int64_t least_cardinality(const std::vector<PipelineHandle>& inputs) {
  std::int64_t least = kInfiniteCardinality;
  for (const PipelineHandle& input : inputs) {
    const std::int64_t own = input->cardinality;
    if (own == kUnknownCardinality) return kUnknownCardinality;
    if (own != kInfiniteCardinality) least = least == kInfiniteCardinality ? own : std::min(least, own);
  }
  return least;
}

/// A pass of each input.
std::vector<std::unique_ptr<Iterator<FlatElement>>> open_all(const std::vector<PipelineHandle>& inputs,
                                                             const IterationKey& key) {
  std::vector<std::unique_ptr<Iterator<FlatElement>>> passes;
  std::size_t first = 0;  // index among the inputs' counts
  for (const PipelineHandle& input : inputs) {
    passes.push_back(input->open(key.from(first)));
    first += input->counts.size();
  }
  return passes;
}

/// Lets `rebuild` make `result` anew for a shard of each input.
template <class Rebuild>
void set_shards(Pipeline& result, const std::vector<PipelineHandle>& inputs, const Rebuild& rebuild) {
  const auto again = [&](auto reshard) -> Resharding {
    return [inputs, reshard, rebuild](std::int64_t num_shards, std::int64_t index) {
      std::vector<PipelineHandle> shards;
      for (const PipelineHandle& input : inputs) shards.push_back(reshard(input, num_shards, index));
      return rebuild(std::move(shards));
    };
  };
  if (std::ranges::all_of(inputs, [](const PipelineHandle& input) { return bool(input->shard_files); }))
    result.shard_files = again([](const PipelineHandle& input, std::int64_t num_shards, std::int64_t index) {
      return input->shard_files(num_shards, index);
    });
  if (std::ranges::any_of(inputs, [](const PipelineHandle& input) { return bool(input->fill_hints); }))
    result.fill_hints = again(with_hints);
}

/// Makes a pipeline the result of a call on all inputs.
void join_stages(Pipeline& result, std::string_view what, const std::vector<PipelineHandle>& inputs) {
  result.stage = std::make_shared<Stage>(Stage{std::string(what.substr(what.rfind(':') + 1))});
  for (const PipelineHandle& input : inputs) result.stage->inputs.push_back(input->stage);
}

/// Combines the inputs' iteration counts and positions.
void combine_counts(Pipeline& result, const std::vector<PipelineHandle>& inputs) {
  for (const PipelineHandle& input : inputs) {
    result.counts.insert(result.counts.end(), input->counts.begin(), input->counts.end());
    result.position = std::max(result.position, input->position);
    result.shard += input->shard;
  }
}

}  // namespace

PipelineHandle concatenated(const PipelineHandle& first, const PipelineHandle& second) {
  check_element_type(*second, *first->type.type);
  constexpr std::string_view kWhat = "Dataset::concatenate";
  std::vector<TensorSpec> spec = common_spec(kWhat, first->spec, second->spec);
  ElementType type = common_type(kWhat, first->type, second->type);
  const bool is_known = type.num_leaves > 0;
  Pipeline result{IteratorFactory<FlatElement>([=](const IterationKey& key) {
                    return std::make_unique<ConcatenateIterator>(first, second, key, is_known);
                  }),
                  std::move(spec), first->batch_size == second->batch_size ? first->batch_size : std::nullopt,
                  std::move(type)};
  combine_counts(result, {first, second});
  join_stages(result, kWhat, {first, second});
  result.cardinality = sum_of_cardinalities(first->cardinality, second->cardinality);
  if (first->shard_files && second->shard_files)
    result.shard_files = [a = first->shard_files, b = second->shard_files](std::int64_t num_shards,
                                                                           std::int64_t index) {
      return concatenated(a(num_shards, index), b(num_shards, index));
    };
  if (first->fill_hints || second->fill_hints)
    result.fill_hints = [first, second](std::int64_t num_shards, std::int64_t index) {
      return concatenated(with_hints(first, num_shards, index), with_hints(second, num_shards, index));
    };
  return std::make_shared<const Pipeline>(std::move(result));
}

PipelineHandle zipped(std::vector<PipelineHandle> inputs, ElementType type) {
  Pipeline result{IteratorFactory<FlatElement>(), {}, inputs[0]->batch_size, std::move(type)};
  for (const PipelineHandle& input : inputs) {
    if (result.type.num_leaves > 0)
      result.spec.insert(result.spec.end(), input->spec.begin(), input->spec.end());
    if (input->batch_size != result.batch_size) result.batch_size.reset();
  }
  set_shards(result, inputs, [type = result.type](std::vector<PipelineHandle> shards) {
    return zipped(std::move(shards), type);
  });
  combine_counts(result, inputs);
  join_stages(result, "Dataset::zip", inputs);
  result.cardinality = least_cardinality(inputs);
  result.elements = IteratorFactory<FlatElement>([inputs = std::move(inputs)](const IterationKey& key) {
    return std::make_unique<ZipIterator>(open_all(inputs, key));
  });
  return std::make_shared<const Pipeline>(std::move(result));
}

namespace {

/// Opens the choices of a pass whose key this is.
using ChoicesFactory = std::function<std::unique_ptr<Iterator<std::int64_t>>(const IterationKey& key)>;

Pipeline choosing(std::string_view what, const std::vector<PipelineHandle>& inputs, ChoicesFactory choices,
                  bool stop_on_empty) {
  LOCKSTEP_EXPECTS(!inputs.empty(), InvalidArgument, what, ": there are no datasets. Pass at least one.");
  Pipeline result{IteratorFactory<FlatElement>(), inputs[0]->spec, inputs[0]->batch_size, inputs[0]->type};
  for (const PipelineHandle& input : inputs) {
    result.spec = common_spec(what, result.spec, input->spec);
    result.type = common_type(what, result.type, input->type);
    if (input->batch_size != result.batch_size) result.batch_size.reset();
  }
  result.elements = IteratorFactory<FlatElement>([=](const IterationKey& key) {
    return std::make_unique<ChooseIterator>(what, inputs, open_all(inputs, key), choices(key), stop_on_empty);
  });
  return result;
}

/// The cardinality of elements chosen at random.
std::int64_t sampled_cardinality(const std::vector<PipelineHandle>& inputs, bool stop_on_empty) {
  const auto is_infinite = [](const PipelineHandle& input) {
    return input->cardinality == kInfiniteCardinality;
  };
  if (std::ranges::all_of(inputs, is_infinite)) return kInfiniteCardinality;
  if (stop_on_empty) return kUnknownCardinality;
  std::int64_t sum = 0;
  for (const PipelineHandle& input : inputs) sum = sum_of_cardinalities(sum, input->cardinality);
  return sum;
}

PipelineHandle sampled(const std::vector<PipelineHandle>& inputs,
                       const std::shared_ptr<const std::vector<double>>& weights, const Seed& seed,
                       bool stop_on_empty, const std::shared_ptr<IterationCounter>& counter) {
  Pipeline all{IteratorFactory<FlatElement>(), {}, std::nullopt, inputs[0]->type};
  combine_counts(all, inputs);
  const auto choices = [=, position = all.position, count = all.counts.size()](const IterationKey& key) {
    LOCKSTEP_EXPECTS(
        seed.is_given() || !key.is_common(), InvalidArgument,
        "Dataset::sample_from_datasets: there is no seed, but several input pipelines are to keep "
        "their shares of one order: each would draw another. Pass a seed, the same for all.");
    const auto words = key.seed_words(seed.value(), position, count);
    std::seed_seq sequence(words.begin(), words.end());
    return std::make_unique<RandomChoiceIterator>(weights, std::mt19937_64(sequence));
  };
  Pipeline result = choosing("Dataset::sample_from_datasets", inputs, choices, stop_on_empty);
  combine_counts(result, inputs);
  join_stages(result, "Dataset::sample_from_datasets", inputs);
  count_iterations(counter)(result);
  seed.keep_in(result);
  result.cardinality = sampled_cardinality(inputs, stop_on_empty);
  set_shards(result, inputs, [=](const std::vector<PipelineHandle>& shards) {
    return sampled(shards, weights, seed, stop_on_empty, counter);
  });
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace

PipelineHandle sampled(std::vector<PipelineHandle> inputs, std::vector<double> weights,
                       std::optional<std::uint64_t> seed, bool stop_on_empty) {
  constexpr std::string_view kWhat = "Dataset::sample_from_datasets";
  LOCKSTEP_EXPECTS(!inputs.empty(), InvalidArgument, kWhat, ": there are no datasets. Pass at least one.");
  if (weights.empty()) weights.assign(inputs.size(), 1.0);
  LOCKSTEP_EXPECTS(weights.size() == inputs.size(), InvalidArgument, kWhat, ": ", weights.size(),
                   " weights for ", inputs.size(), " datasets. Pass one for each, or none.");
  std::vector<PipelineHandle> used;
  std::vector<double> sums;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    LOCKSTEP_EXPECTS(weights[i] >= 0 && std::isfinite(weights[i]), InvalidArgument, kWhat, ": weight ", i,
                     " is ", weights[i], ". Pass weights that are finite and not negative.");
    if (weights[i] == 0) continue;
    used.push_back(inputs[i]);
    sums.push_back(weights[i] + (sums.empty() ? 0.0 : sums.back()));
    LOCKSTEP_EXPECTS(sums.size() < 2 || sums.back() > sums[sums.size() - 2], InvalidArgument, kWhat,
                     ": weight ", i, ", ", weights[i],
                     ", is too small beside the others. Pass weights of similar size.");
  }
  LOCKSTEP_EXPECTS(!used.empty() && std::isfinite(sums.back()), InvalidArgument, kWhat,
                   ": the weights' sum is ", used.empty() ? 0.0 : sums.back(),
                   ". Pass weights whose sum is above 0 and finite.");
  return sampled(used, std::make_shared<const std::vector<double>>(std::move(sums)), Seed(seed),
                 stop_on_empty, std::make_shared<IterationCounter>());
}

PipelineHandle chosen(std::vector<PipelineHandle> inputs, const PipelineHandle& choices, bool stop_on_empty) {
  Pipeline all{IteratorFactory<FlatElement>(), {}, std::nullopt, choices->type};
  combine_counts(all, inputs);
  Pipeline result = choosing(
      "Dataset::choose_from_datasets", inputs,
      [choices, first = all.counts.size()](const IterationKey& key) {
        return std::make_unique<IndexIterator>(choices->open(key.from(first)));
      },
      stop_on_empty);
  inputs.push_back(choices);
  combine_counts(result, inputs);
  join_stages(result, "Dataset::choose_from_datasets", inputs);
  set_shards(result, inputs, [stop_on_empty](std::vector<PipelineHandle> shards) {
    const PipelineHandle choices_of_shard = shards.back();
    shards.pop_back();
    return chosen(std::move(shards), choices_of_shard, stop_on_empty);
  });
  result.shard_files = nullptr;  // all shards would have the same choices
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace lockstep::detail
