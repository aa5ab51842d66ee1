#include <algorithm>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/iterators/combined_iterators.hpp"
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

std::vector<TensorSpec> common_spec(const std::vector<TensorSpec>& a, const std::vector<TensorSpec>& b) {
  if (a.empty() || b.empty()) return {};
  LOCKSTEP_EXPECTS(a.size() == b.size(), InvalidArgument,
                   "Dataset::concatenate: the elements of the first dataset have ", a.size(),
                   " components, those of the second ", b.size(), ". Give all elements the same structure.");
  std::vector<TensorSpec> common;
  for (std::size_t i = 0; i < a.size(); ++i) {
    LOCKSTEP_EXPECTS(!a[i].is_known || !b[i].is_known || a[i].dtype == b[i].dtype, InvalidArgument,
                     "Dataset::concatenate: component ", i, " of the first dataset's elements is ", a[i],
                     ", of the second's ", b[i], ". Make the dtypes the same, as map with cast does.");
    common.push_back(common_spec(a[i], b[i]));
  }
  return common;
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
  std::vector<TensorSpec> spec = common_spec(first->spec, second->spec);
  const bool is_known = first->type.num_leaves > 0 && second->type.num_leaves > 0;
  if (is_known) check_structures(first->type.text(), second->type.text());
  ElementType type = first->type;
  if (!is_known) {
    type.num_leaves = 0;
    type.structure = [a = first->type.structure, b = second->type.structure] {
      std::any structure = a();
      return structure.has_value() ? structure : b();
    };
    type.text = [a = first->type.text, b = second->type.text] {
      std::string text = a();
      return text.empty() ? b() : text;
    };
  }
  Pipeline result{IteratorFactory<FlatElement>([=](const IterationKey& key) {
                    return std::make_unique<ConcatenateIterator>(first, second, key, is_known);
                  }),
                  std::move(spec), first->batch_size == second->batch_size ? first->batch_size : std::nullopt,
                  std::move(type)};
  combine_counts(result, {first, second});
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
  bool reads_files = true, has_hints = false;
  for (const PipelineHandle& input : inputs) {
    if (result.type.num_leaves > 0)
      result.spec.insert(result.spec.end(), input->spec.begin(), input->spec.end());
    if (input->batch_size != result.batch_size) result.batch_size.reset();
    reads_files = reads_files && input->shard_files;
    has_hints = has_hints || input->fill_hints;
  }
  const auto again = [&](auto reshard) {
    return [inputs, reshard, type = result.type](std::int64_t num_shards, std::int64_t index) {
      std::vector<PipelineHandle> shards;
      for (const PipelineHandle& input : inputs) shards.push_back(reshard(input, num_shards, index));
      return zipped(std::move(shards), type);
    };
  };
  if (reads_files)
    result.shard_files = again([](const PipelineHandle& input, std::int64_t num_shards, std::int64_t index) {
      return input->shard_files(num_shards, index);
    });
  if (has_hints) result.fill_hints = again(with_hints);
  combine_counts(result, inputs);
  result.cardinality = least_cardinality(inputs);
  result.elements = IteratorFactory<FlatElement>([inputs = std::move(inputs)](const IterationKey& key) {
    std::vector<std::unique_ptr<Iterator<FlatElement>>> passes;
    std::size_t first = 0;  // index among the input's counts
    for (const PipelineHandle& input : inputs) {
      passes.push_back(input->open(key.from(first)));
      first += input->counts.size();
    }
    return std::make_unique<ZipIterator>(std::move(passes));
  });
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace lockstep::detail
