#include <atomic>
#include <cstdlib>
#include <random>

#include <cxxabi.h>

#include <lockstep/detail/pipeline.hpp>
#include <lockstep/error.hpp>

#include "input/batch_passes.hpp"
#include "input/host_rows.hpp"
#include "input/passes.hpp"
#include "input/row_tables.hpp"
#include "input/transform.hpp"

namespace lockstep::detail {
namespace {

PipelineHandle table_pipeline(std::shared_ptr<const RowTable> table, std::vector<TensorSpec> spec,
                              ElementType type) {
  const std::int64_t num_rows = table->num_rows();
  TableRows rows{std::move(table), [num_rows] { return std::make_unique<CountPass>(num_rows); }};
  return std::make_shared<const Pipeline>(
      Pipeline{std::move(rows), std::move(spec), std::nullopt, std::move(type)});
}

/// A seed for each pass: the steps of SplitMix64 (Steele, Lea, Flood 2014).
class PassSeeds {
 public:
  explicit PassSeeds(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
    std::uint64_t z = state_.fetch_add(kStep, std::memory_order_relaxed) + kStep;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  std::atomic<std::uint64_t> state_;
};

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string type_name(const std::type_info& type) {
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), std::free);
  return text ? text.get() : type.name();
}

}  // namespace

std::unique_ptr<Pass<FlatElement>> Pipeline::open() const {
  if (const auto* rows = std::get_if<TableRows>(&elements)) return std::make_unique<TablePass>(*rows);
  if (const auto* batches = std::get_if<Opener<BatchHandle>>(&elements))
    return std::make_unique<GatherPass>((*batches)());
  return std::get<Opener<FlatElement>>(elements)();
}

std::unique_ptr<Pass<BatchHandle>> Pipeline::open_batches() const {
  if (const auto* batches = std::get_if<Opener<BatchHandle>>(&elements)) return (*batches)();
  return std::make_unique<ElementBatchPass>(open());
}

PipelineHandle slices_pipeline(std::vector<Tensor> tensors, ElementType type, std::string_view what) {
  LOCKSTEP_EXPECTS(!tensors.empty(), InvalidArgument, what, ": there are no tensors. Pass at least one.");
  std::vector<TensorSpec> spec;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    LOCKSTEP_EXPECTS(tensor.rank() > 0, InvalidArgument, what, ": component ", i, " is a scalar, ",
                     describe(tensor), ", and has no rows. Reshape it to rank 1.");
    LOCKSTEP_EXPECTS(tensor.shape()[0] == tensors[0].shape()[0], InvalidArgument, what, ": component ", i,
                     ", ", describe(tensor), ", has ", tensor.shape()[0], " rows, component 0, ",
                     describe(tensors[0]), ", has ", tensors[0].shape()[0],
                     ". Give all components the same number of rows.");
    spec.push_back(TensorSpec::of(tensor.shape().without(0), tensor.dtype()));
  }
  for (Tensor& tensor : tensors) tensor = on_host(tensor);
  return table_pipeline(std::make_shared<const TensorRows>(std::move(tensors)), std::move(spec),
                        std::move(type));
}

PipelineHandle range_pipeline(std::int64_t start, std::int64_t stop, std::int64_t step, ElementType type) {
  LOCKSTEP_EXPECTS(step != 0, InvalidArgument, "Dataset::range(", start, ", ", stop,
                   ", 0): the step is 0. Pass another.");
  // Unsigned: the distance may exceed the largest signed number.
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
  return table_pipeline(std::move(table), {TensorSpec({}, DType::i64)}, std::move(type));
}

PipelineHandle shuffled(const PipelineHandle& input, std::int64_t buffer_size,
                        std::optional<std::uint64_t> seed) {
  LOCKSTEP_EXPECTS(buffer_size >= 1, InvalidArgument, "Dataset::shuffle: a buffer of ", buffer_size,
                   " elements. Pass at least 1, best the number of elements.");
  auto seeds = std::make_shared<PassSeeds>(seed ? *seed : random_seed());  // owners: copies of the opener
  return with_passes(input, [=]<class T>(const Opener<T>& open) -> std::unique_ptr<Pass<T>> {
    return std::make_unique<ShufflePass<T>>(open(), buffer_size, seeds->next());
  });
}

PipelineHandle batched(const PipelineHandle& input, std::int64_t batch_size, bool drop_remainder) {
  LOCKSTEP_EXPECTS(batch_size >= 1, InvalidArgument, "Dataset::batch: batches of ", batch_size,
                   " elements. Pass at least 1.");
  return with_elements<BatchHandle>(
      input,
      [batch_size, drop_remainder](const PipelineHandle& from) -> std::unique_ptr<Pass<BatchHandle>> {
        if (const auto* rows = std::get_if<TableRows>(&from->elements))
          return std::make_unique<TableBatchPass>(*rows, batch_size, drop_remainder);
        return std::make_unique<StackBatchPass>(from->open(), batch_size, drop_remainder);
      },
      [batch_size, drop_remainder](Pipeline& result) {
        for (TensorSpec& leaf : result.spec)
          if (leaf.is_known)
            leaf.extents.insert(leaf.extents.begin(),
                                drop_remainder ? std::optional(batch_size) : std::nullopt);
        result.batch_size = batch_size;
      });
}

PipelineHandle repeated(const PipelineHandle& input, std::int64_t count) {
  LOCKSTEP_EXPECTS(count >= 0 || count == kForever, InvalidArgument, "Dataset::repeat: ", count,
                   " passes. Pass at least 0, or `forever`.");
  return with_passes(input, [count]<class T>(const Opener<T>& open) -> std::unique_ptr<Pass<T>> {
    return std::make_unique<RepeatPass<T>>(open, count);
  });
}

PipelineHandle taken(const PipelineHandle& input, std::int64_t count) {
  LOCKSTEP_EXPECTS(count >= 0, InvalidArgument, "Dataset::take: ", count, " elements. Pass at least 0.");
  return with_passes(input, [count]<class T>(const Opener<T>& open) -> std::unique_ptr<Pass<T>> {
    return std::make_unique<TakePass<T>>(open(), count);
  });
}

PipelineHandle skipped(const PipelineHandle& input, std::int64_t count) {
  LOCKSTEP_EXPECTS(count >= 0, InvalidArgument, "Dataset::skip: ", count, " elements. Pass at least 0.");
  return with_passes(input, [count]<class T>(const Opener<T>& open) -> std::unique_ptr<Pass<T>> {
    return std::make_unique<SkipPass<T>>(open(), count);
  });
}

namespace {

/// A place for a shard that is not known yet.
PipelineHandle hinted(const PipelineHandle& input, bool needs_all) {
  PipelineHandle fails = with_passes(input, []<class T>(const Opener<T>&) -> std::unique_ptr<Pass<T>> {
    return std::make_unique<UnknownShardPass<T>>();
  });
  Pipeline result = *fails;
  result.fill_hints = [input, needs_all](std::int64_t num_shards, std::int64_t index) {
    return sharded(with_hints(input, num_shards, index), num_shards, index, needs_all);
  };
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace

PipelineHandle sharded(const PipelineHandle& input, std::int64_t num_shards, std::int64_t index,
                       bool needs_all) {
  if (num_shards == kShardHint && index == kShardHint) return hinted(input, needs_all);
  LOCKSTEP_EXPECTS(num_shards >= 1 && 0 <= index && index < num_shards, InvalidArgument,
                   "Dataset::shard: index ", index, " is not one of ", num_shards,
                   " shards. Pass at least 1 shard, and an index in [0, num_shards).");
  return with_passes(input, [=]<class T>(const Opener<T>& open) -> std::unique_ptr<Pass<T>> {
    return std::make_unique<ShardPass<T>>(open(), num_shards, index, needs_all);
  });
}

void check_element_type(const Pipeline& pipeline, const std::type_info& type) {
  LOCKSTEP_EXPECTS(*pipeline.type.type == type, InvalidArgument, "Dataset::as<", type_name(type),
                   ">: the elements are ", type_name(*pipeline.type.type), ". Ask for this type.");
}

}  // namespace lockstep::detail
