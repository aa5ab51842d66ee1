#include "input/pipeline/pipeline.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <random>

#include <cxxabi.h>

#include <lockstep/error.hpp>
#include <lockstep/values/nest.hpp>

#include "detail/expects.hpp"
#include "input/iterators/batch_iterators.hpp"
#include "input/iterators/ignore_errors_iterator.hpp"
#include "input/iterators/iterators.hpp"
#include "input/pipeline/element_error.hpp"
#include "input/pipeline/transform.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/row_tables.hpp"
#include "input/statistics/measured_iterator.hpp"

namespace lockstep::detail {
namespace {

PipelineHandle table_pipeline(std::shared_ptr<const RowTable> table, std::vector<TensorSpec> spec,
                              ElementType type, std::string stage) {
  const std::int64_t num_rows = table->num_rows();
  TableRows rows{std::move(table),
                 [num_rows](const IterationKey&) { return std::make_unique<CountIterator>(num_rows); }};
  Pipeline result{std::move(rows), std::move(spec), std::nullopt, std::move(type)};
  result.cardinality = num_rows;
  result.stage = std::make_shared<Stage>(Stage{std::move(stage)});
  return std::make_shared<const Pipeline>(std::move(result));
}

/// An `edit` that changes the number of elements, if it is known and finite.
template <class F>
auto change_cardinality(F f) {
  return [f](Pipeline& result) {
    if (result.cardinality >= 0) result.cardinality = f(result.cardinality);
  };
}

std::int64_t repeated_cardinality(std::int64_t once, std::int64_t count) {
  if (count == 0 || once == 0) return 0;
  if (count == kForever || once == kInfiniteCardinality) return kInfiniteCardinality;
  std::int64_t all = 0;
  return once == kUnknownCardinality || __builtin_mul_overflow(once, count, &all) ? kUnknownCardinality : all;
}

/// The rows of a pipeline, of which a batch is made.
TableRows measured_rows(const TableRows& rows, const std::shared_ptr<Stage>& stage) {
  return {rows.table, [open = rows.open, stage](const IterationKey& key) {
            return open_measured<std::int64_t>(key, stage, [&] { return open(key); });
          }};
}

void add_batch_axis(Pipeline& result, std::int64_t batch_size, bool drop_remainder) {
  for (TensorSpec& leaf : result.spec)
    if (leaf.is_known)
      leaf.extents.insert(leaf.extents.begin(), drop_remainder ? std::optional(batch_size) : std::nullopt);
  result.batch_size = batch_size;
}

std::string type_name(const std::type_info& type) {
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), std::free);
  return text ? text.get() : type.name();
}

}  // namespace

Seed::Seed(std::optional<std::uint64_t> given) {
  if (given) {
    given_ = *given;
    return;
  }
  std::random_device device;
  drawn_ = std::make_shared<std::atomic<std::uint64_t>>((std::uint64_t{device()} << 32) | device());
}

void Seed::keep_in(Pipeline& pipeline) const {
  if (is_given()) return;
  pipeline.stage->learned.push_back([drawn = drawn_](PassState& state) {
    std::uint64_t seed = drawn->load();
    state(seed);
    if (!state.is_saving()) state.when_restored([drawn, seed] { drawn->store(seed); });
  });
}

std::unique_ptr<Iterator<FlatElement>> Pipeline::open(const IterationKey& key) const {
  return open_measured<FlatElement>(key, stage, [&]() -> std::unique_ptr<Iterator<FlatElement>> {
    if (const auto* rows = std::get_if<TableRows>(&elements))
      return std::make_unique<TableIterator>(*rows, key);
    if (const auto* batches = std::get_if<IteratorFactory<BatchHandle>>(&elements))
      return std::make_unique<GatherIterator>((*batches)(key));
    return std::get<IteratorFactory<FlatElement>>(elements)(key);
  });
}

std::unique_ptr<Iterator<BatchHandle>> Pipeline::open_batches(const IterationKey& key) const {
  if (const auto* batches = std::get_if<IteratorFactory<BatchHandle>>(&elements))
    return open_measured<BatchHandle>(key, stage, [&] { return (*batches)(key); });
  return std::make_unique<ElementBatchIterator>(open(key));
}

const ElementType& type_of(const PipelineHandle& pipeline) noexcept { return pipeline->type; }

std::int64_t cardinality_of(const PipelineHandle& pipeline) noexcept { return pipeline->cardinality; }

const std::vector<IterationCount>& counts_of(const PipelineHandle& pipeline) noexcept {
  return pipeline->counts;
}

std::unique_ptr<Iterator<FlatElement>> open_pipeline(const PipelineHandle& pipeline,
                                                     const IterationKey& key) {
  return pipeline->open(key);
}

PipelineHandle slices_pipeline(std::vector<Tensor> tensors, ElementType type, std::string_view what) {
  num_rows(tensors, what);
  std::vector<TensorSpec> spec;
  std::string tensors_text;
  for (const Tensor& tensor : tensors) {
    spec.push_back(TensorSpec::of(tensor.shape().without(0), tensor.dtype()));
    tensors_text += concat(tensors_text.empty() ? "" : ", ", tensor.shape(), " ", tensor.dtype());
  }
  for (Tensor& tensor : tensors) tensor = on_host(tensor);
  return table_pipeline(std::make_shared<const TensorRows>(std::move(tensors)), std::move(spec),
                        std::move(type), concat("from_tensor_slices(", tensors_text, ")"));
}

PipelineHandle range_pipeline(std::int64_t start, std::int64_t stop, std::int64_t step, ElementType type) {
  LOCKSTEP_EXPECTS(step != 0, InvalidArgument, "Dataset::range(", start, ", ", stop,
                   ", 0): the step is 0. Pass another.");
  // The arithmetic is unsigned: the distance may exceed the signed range.
  const auto distance = [](std::int64_t low, std::int64_t high) {
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  };
  std::uint64_t count = 0;
  if (step > 0 && start < stop) count = (distance(start, stop) - 1) / static_cast<std::uint64_t>(step) + 1;
  if (step < 0 && stop < start)
    count = (distance(stop, start) - 1) / (0 - static_cast<std::uint64_t>(step)) + 1;
  LOCKSTEP_EXPECTS(count <= static_cast<std::uint64_t>(INT64_MAX), InvalidArgument, "Dataset::range(", start,
                   ", ", stop, ", ", step, "): ", count, " elements are too many. Pass a larger step.");
  auto table = std::make_shared<const RangeRows>(start, step, static_cast<std::int64_t>(count));
  return table_pipeline(std::move(table), {TensorSpec({}, DType::i64)}, std::move(type),
                        concat("range(", start, ", ", stop, ", ", step, ")"));
}

PipelineHandle shuffled(const PipelineHandle& input, std::int64_t buffer_size,
                        std::optional<std::uint64_t> seed, bool reshuffle_each_iteration) {
  LOCKSTEP_EXPECTS(buffer_size >= 1, InvalidArgument, "Dataset::shuffle: a buffer of ", buffer_size,
                   " elements. Pass at least 1, best the number of elements.");
  const Seed kept(seed);
  const auto pass = [=, position = input->position, count = input->counts.size()]<class T>(
                        const IteratorFactory<T>& open,
                        const IterationKey& key) -> std::unique_ptr<Iterator<T>> {
    LOCKSTEP_EXPECTS(kept.is_given() || !key.is_common(), CallError,
                     "Dataset::shuffle: there is no seed, but several input pipelines are to keep their "
                     "shares of one order: each would draw another. Pass a seed, the same for all.");
    auto words = key.seed_words(kept.value(), position, count);
    // Without the words of the pass: those of the first one, which are 0.
    if (!reshuffle_each_iteration) std::fill(words.begin() + words.size() / 2, words.end(), 0);
    std::seed_seq sequence(words.begin(), words.end());
    const auto buffer = std::max(buffer_size, key.shuffle_buffer());
    return std::make_unique<ShuffleIterator<T>>(open(key.shuffled(buffer)), buffer_size,
                                                std::mt19937_64(sequence));
  };
  const std::string stage = concat("shuffle(", buffer_size, reshuffle_each_iteration ? ")" : ", one order)");
  return with_iterators(
      input, stage, pass,
      [kept, count = count_iterations(std::make_shared<IterationCounter>())](Pipeline& result) {
        kept.keep_in(result);
        count(result);
      });
}

PipelineHandle batched(const PipelineHandle& input, std::int64_t batch_size, bool drop_remainder) {
  LOCKSTEP_EXPECTS(batch_size >= 1, InvalidArgument, "Dataset::batch: batches of ", batch_size,
                   " elements. Pass at least 1.");
  return with_elements<BatchHandle>(
      input, concat("batch(", batch_size, drop_remainder ? ", drop_remainder)" : ")"),
      [batch_size, drop_remainder](const PipelineHandle& from,
                                   const IterationKey& key) -> std::unique_ptr<Iterator<BatchHandle>> {
        if (const auto* rows = std::get_if<TableRows>(&from->elements))
          return std::make_unique<TableBatchIterator>(measured_rows(*rows, from->stage), key, batch_size,
                                                      drop_remainder);
        return std::make_unique<StackBatchIterator>(from->open(key), batch_size, drop_remainder);
      },
      [batch_size, drop_remainder](Pipeline& result) {
        add_batch_axis(result, batch_size, drop_remainder);
        change_cardinality([&](std::int64_t rows) {
          return rows / batch_size + (!drop_remainder && rows % batch_size > 0);
        })(result);
      });
}

PipelineHandle windowed(const PipelineHandle& input, std::int64_t size, std::int64_t shift,
                        std::int64_t stride, bool drop_remainder) {
  LOCKSTEP_EXPECTS(size >= 1 && shift >= 1 && stride >= 1, InvalidArgument, "Dataset::window: windows of ",
                   size, " elements, the shift is ", shift, ", and the stride ", stride,
                   ". Pass at least 1 each.");
  std::int64_t span = 0;
  LOCKSTEP_EXPECTS(
      !__builtin_mul_overflow(size - 1, stride, &span) && !__builtin_add_overflow(span, 1, &span),
      InvalidArgument, "Dataset::window: windows of ", size, " elements with stride ", stride,
      " span more than 2^63 - 1 elements. Pass less.");
  return with_elements<BatchHandle>(
      input, concat("window(", size, ", ", shift, ", ", stride, drop_remainder ? ", drop_remainder)" : ")"),
      [=](const PipelineHandle& from, const IterationKey& key) -> std::unique_ptr<Iterator<BatchHandle>> {
        if (const auto* rows = std::get_if<TableRows>(&from->elements))
          return std::make_unique<TableWindowIterator>(
              measured_rows(*rows, from->stage), key,
              Windows<std::int64_t>(span, shift, stride, drop_remainder));
        return std::make_unique<StackWindowIterator>(
            from->open(key), Windows<FlatElement>(span, shift, stride, drop_remainder));
      },
      [=](Pipeline& result) {
        add_batch_axis(result, size, drop_remainder);
        result.batch_size.reset();  // windows overlap: their rows are no one sequence
        change_cardinality([&](std::int64_t all) {
          if (!drop_remainder) return all / shift + (all % shift > 0);
          return all < span ? 0 : (all - span) / shift + 1;
        })(result);
      });
}

PipelineHandle unbatched(const PipelineHandle& input) {
  for (const TensorSpec& leaf : input->spec)
    LOCKSTEP_EXPECTS(!leaf.is_known || leaf.rank() > 0, InvalidArgument,
                     "Dataset::unbatch: a component of the elements is ", leaf,
                     ", a scalar, and has no rows. Unbatch elements whose components all have a first axis.");
  return with_elements(
      input, "unbatch",
      [](const PipelineHandle& from, const IterationKey& key) {
        return std::make_unique<UnbatchIterator>(from->open(key.shuffled(0)));
      },
      [](Pipeline& result) {
        std::optional<std::int64_t> num_rows;
        for (TensorSpec& leaf : result.spec) {
          if (!leaf.is_known) continue;
          if (leaf.extents.front()) num_rows = leaf.extents.front();
          leaf.extents.erase(leaf.extents.begin());
        }
        result.batch_size.reset();
        std::int64_t& all = result.cardinality;
        if (all >= 0 && (!num_rows || __builtin_mul_overflow(all, *num_rows, &all)))
          all = kUnknownCardinality;
      });
}

PipelineHandle errors_ignored(const PipelineHandle& input, std::int64_t max, ErrorReport report) {
  LOCKSTEP_EXPECTS(max >= 0 || max == kForever, InvalidArgument, "Dataset::ignore_errors: at most ", max,
                   " errors. Pass at least 0, or `forever`.");
  return with_iterators(
      input, concat("ignore_errors(", max, ")"),
      [max, report = std::move(report)]<class T>(const IteratorFactory<T>& open,
                                                 const IterationKey& key) -> std::unique_ptr<Iterator<T>> {
        return std::make_unique<IgnoreErrorsIterator<T>>(open(key), max, report);
      },
      [](Pipeline& result) {
        if (result.cardinality >= 0) result.cardinality = kUnknownCardinality;
      });
}

PipelineHandle repeated(const PipelineHandle& input, std::int64_t count) {
  LOCKSTEP_EXPECTS(count >= 0 || count == kForever, InvalidArgument, "Dataset::repeat: ", count,
                   " passes. Pass at least 0, or `forever`.");
  const auto pass = [count, position = input->position]<class T>(
                        const IteratorFactory<T>& open,
                        const IterationKey& key) -> std::unique_ptr<Iterator<T>> {
    return std::make_unique<RepeatIterator<T>>(open, key, position, count);
  };
  return with_iterators(input, concat("repeat(", count, ")"), pass, [count](Pipeline& result) {
    ++result.position;
    result.cardinality = repeated_cardinality(result.cardinality, count);
  });
}

PipelineHandle taken(const PipelineHandle& input, std::int64_t count) {
  LOCKSTEP_EXPECTS(count >= 0, InvalidArgument, "Dataset::take: ", count, " elements. Pass at least 0.");
  return with_iterators(
      input, concat("take(", count, ")"),
      [count]<class T>(const IteratorFactory<T>& open, const IterationKey& key)
          -> std::unique_ptr<Iterator<T>> { return std::make_unique<TakeIterator<T>>(open(key), count); },
      [count](Pipeline& result) {
        if (count == 0 || result.cardinality == kInfiniteCardinality)
          result.cardinality = count;
        else
          result.cardinality = std::min(result.cardinality, count);
      });
}

namespace {

/// The key for an input of which a `shuffle` sees one of `num_shards` elements, but for the first ones. Its
/// buffer spans more of the input's elements than it has.
IterationKey sparser(const IterationKey& key, std::int64_t num_shards, std::int64_t num_skipped) {
  std::int64_t span = key.shuffle_buffer();
  if (span > 0 &&
      (__builtin_mul_overflow(span, num_shards, &span) || __builtin_add_overflow(span, num_skipped, &span)))
    span = std::numeric_limits<std::int64_t>::max();
  return key.shuffled(span);
}

}  // namespace

PipelineHandle skipped(const PipelineHandle& input, std::int64_t count) {
  LOCKSTEP_EXPECTS(count >= 0, InvalidArgument, "Dataset::skip: ", count, " elements. Pass at least 0.");
  return with_iterators(
      input, concat("skip(", count, ")"),
      [count]<class T>(const IteratorFactory<T>& open,
                       const IterationKey& key) -> std::unique_ptr<Iterator<T>> {
        return std::make_unique<SkipIterator<T>>(open(sparser(key, 1, count)), count);
      },
      change_cardinality([count](std::int64_t all) { return std::max<std::int64_t>(all - count, 0); }));
}

namespace {

/// A placeholder for a shard that is not known yet.
PipelineHandle with_unknown_shard(const PipelineHandle& input) {
  PipelineHandle fails = with_iterators(
      input, "shard(shard_hint, shard_hint)",
      []<class T>(const IteratorFactory<T>&, const IterationKey&) -> std::unique_ptr<Iterator<T>> {
        return std::make_unique<UnknownShardIterator<T>>();
      });
  Pipeline result = *fails;
  result.cardinality = kUnknownCardinality;
  result.fill_hints = [input](std::int64_t num_shards, std::int64_t index) {
    return sharded(with_hints(input, num_shards, index), num_shards, index, ShardedBy::hint);
  };
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace

PipelineHandle sharded(const PipelineHandle& input, std::int64_t num_shards, std::int64_t index,
                       ShardedBy by) {
  if (num_shards == kShardHint && index == kShardHint) return with_unknown_shard(input);
  LOCKSTEP_EXPECTS(num_shards >= 1 && 0 <= index && index < num_shards, InvalidArgument,
                   "Dataset::shard: index ", index, " is not one of ", num_shards,
                   " shards. Pass at least 1 shard, and an index in [0, num_shards).");
  const bool is_common = by != ShardedBy::user && num_shards > 1;
  const auto pass = [=]<class T>(const IteratorFactory<T>& open,
                                 const IterationKey& key) -> std::unique_ptr<Iterator<T>> {
    const IterationKey sparse = sparser(key, num_shards, 0);
    return std::make_unique<ShardIterator<T>>(open(is_common ? sparse.common() : sparse), num_shards, index,
                                              by == ShardedBy::auto_shard);
  };
  const auto share = change_cardinality(
      [=](std::int64_t all) { return all / num_shards + (index < all % num_shards ? 1 : 0); });
  return with_iterators(input, concat("shard(", num_shards, ", ", index, ")"), pass,
                        [count = count_as_shard(num_shards, index), share](Pipeline& result) {
                          count(result);
                          share(result);
                        });
}

PipelineHandle counted_as_shard(const PipelineHandle& input, std::int64_t num_shards, std::int64_t index) {
  Pipeline result = *input;
  count_as_shard(num_shards, index)(result);
  return std::make_shared<const Pipeline>(std::move(result));
}

void check_element_type(const Pipeline& pipeline, const std::type_info& type) {
  LOCKSTEP_EXPECTS(*pipeline.type.type == type, InvalidArgument, "Dataset::as<", type_name(type),
                   ">: the elements are ", type_name(*pipeline.type.type), ". Ask for this type.");
}

}  // namespace lockstep::detail
