#include <algorithm>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/iterators/padded_batch_iterators.hpp"
#include "input/pipeline/transform.hpp"

namespace lockstep::detail {
namespace {

void check_options(const PaddedBatchOptions& options, const Pipeline& input, std::string_view what) {
  for (const auto& shape : options.padded_shapes)
    for (const std::optional<std::int64_t>& extent : shape)
      LOCKSTEP_EXPECTS(!extent || *extent >= 0, InvalidArgument, what, ": a padded shape has the extent ",
                       *extent, ". Pass extents from 0 on, or nothing for that of the longest element.");
  const std::size_t num_leaves = input.spec.size();
  const auto is_one_each = [&](std::size_t given) {
    return given == 0 || num_leaves == 0 || given == num_leaves;
  };
  LOCKSTEP_EXPECTS(is_one_each(options.padded_shapes.size()), InvalidArgument, what, ": ",
                   options.padded_shapes.size(), " padded shapes for elements of ", num_leaves,
                   " components. Pass one for each, or none.");
  LOCKSTEP_EXPECTS(is_one_each(options.padding_values.size()), InvalidArgument, what, ": ",
                   options.padding_values.size(), " padding values for elements of ", num_leaves,
                   " components. Pass one for each, or none.");
}

/// The spec of padded batches.
void pad(std::vector<TensorSpec>& spec, const PaddedBatchOptions& options,
         std::optional<std::int64_t> num_rows) {
  for (std::size_t leaf = 0; leaf < spec.size(); ++leaf) {
    if (!spec[leaf].is_known) continue;
    auto& extents = spec[leaf].extents;
    if (options.padded_shapes.empty())
      std::ranges::fill(extents, std::nullopt);
    else
      extents = options.padded_shapes[leaf];
    extents.insert(extents.begin(), num_rows);
  }
}

}  // namespace

PipelineHandle padded_batched(const PipelineHandle& input, std::int64_t batch_size,
                              const PaddedBatchOptions& options) {
  LOCKSTEP_EXPECTS(batch_size >= 1, InvalidArgument, "Dataset::padded_batch: batches of ", batch_size,
                   " elements. Pass at least 1.");
  check_options(options, *input, "Dataset::padded_batch");
  return with_elements<BatchHandle>(
      input, concat("padded_batch(", batch_size, options.drop_remainder ? ", drop_remainder)" : ")"),
      [batch_size, options](const PipelineHandle& from, const IterationKey& key) {
        return std::make_unique<PaddedBatchIterator>(from->open(key), batch_size, options);
      },
      [batch_size, options](Pipeline& result) {
        const bool drops = options.drop_remainder;
        pad(result.spec, options, drops ? std::optional(batch_size) : std::nullopt);
        result.batch_size.reset();  // batches differ in width: their rows are no one sequence
        std::int64_t& all = result.cardinality;
        if (all >= 0) all = all / batch_size + (!drops && all % batch_size > 0);
      });
}

PipelineHandle bucketed(const PipelineHandle& input, ElementLength length, const BucketOptions& options) {
  constexpr std::string_view kWhat = "Dataset::bucket_by_sequence_length";
  const std::vector<std::int64_t>& boundaries = options.boundaries;
  LOCKSTEP_EXPECTS(!boundaries.empty() && std::ranges::is_sorted(boundaries, std::less_equal<>()),
                   InvalidArgument, kWhat, ": ",
                   boundaries.empty() ? "there are no boundaries" : "the boundaries do not ascend",
                   ". Pass at least one, each larger than the one before.");
  LOCKSTEP_EXPECTS(options.batch_sizes.size() == boundaries.size() + 1, InvalidArgument, kWhat, ": ",
                   options.batch_sizes.size(), " batch sizes for ", boundaries.size(),
                   " boundaries. Pass one more than there are boundaries.");
  for (const std::int64_t size : options.batch_sizes)
    LOCKSTEP_EXPECTS(size >= 1, InvalidArgument, kWhat, ": batches of ", size, " elements. Pass at least 1.");
  check_options(options.padded_batch, *input, kWhat);
  return with_elements<BatchHandle>(
      input, concat("bucket_by_sequence_length(", boundaries.size() + 1, " buckets)"),
      [length = std::move(length), options](const PipelineHandle& from, const IterationKey& key) {
        return std::make_unique<BucketIterator>(from->open(key), length, options);
      },
      [options](Pipeline& result) {
        pad(result.spec, options.padded_batch, std::nullopt);
        result.batch_size.reset();
        if (result.cardinality >= 0) result.cardinality = kUnknownCardinality;
      });
}

}  // namespace lockstep::detail
