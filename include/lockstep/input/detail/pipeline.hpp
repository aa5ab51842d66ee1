#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <lockstep/detail/shared_function.hpp>
#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard_policy.hpp>
#include <lockstep/input/detail/iteration_key.hpp>
#include <lockstep/input/detail/pass_state.hpp>
#include <lockstep/input/detail/row_block.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/padded_batch_options.hpp>
#include <lockstep/input/parallel_options.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

/// The description behind a Dataset, with its element type erased.
namespace lockstep::detail {

/// The tensors of an element, in the order of its leaves; on the host.
using FlatElement = std::vector<Tensor>;

/// What a pass has ready, and what its threads have done.
struct Ahead {
  std::int64_t num_ready = 0, buffer_size = 0;  ///< Elements. 0: it keeps none ready.
  std::int64_t work_ns = 0;                     ///< While a recording was on.
  int num_threads = 1;                          ///< That did the work.
};

/// One pass over values. Used by one thread at a time.
template <class T>
class Iterator {
 public:
  virtual ~Iterator() = default;
  /// The next value; nothing at the end and on all later calls.
  virtual std::optional<T> next() = 0;
  /// The next elements at once, at most `most`, which is at least 1. Fewer come before an element that
  /// throws, and where it suits the pass. Nothing: take the next element by `next`.
  virtual std::optional<RowBlock> next_rows(std::int64_t most) {
    static_cast<void>(most);
    return std::nullopt;
  }
  /// Whether the elements lie in memory that nothing else reads or writes, though they may share allocations.
  virtual bool owns_memory() const { return false; }
  /// Writes where the pass is, between two calls of `next`; or takes that from the state of a pass over the
  /// same pipeline with the same key, before the first call.
  virtual void transfer(PassState& state) = 0;
  /// For statistics.
  virtual Ahead ahead() { return {}; }
};

/// Starts the pass with this key.
template <class T>
using IteratorFactory = SharedFunction<std::unique_ptr<Iterator<T>>(const IterationKey&)>;

/// The static type of elements, and the arrangement of their tensors in it.
struct ElementType {
  const std::type_info* type;
  std::size_t num_leaves;  ///< 0 while lengths or keys are unknown, before the first element.
  /// An element with empty tensors; an empty `any` while the structure is unknown. Called from any thread.
  SharedFunction<std::any()> structure;
  /// The lengths and keys as text, for comparisons and messages; empty while they are unknown, or if the type
  /// alone determines them.
  SharedFunction<std::string()> text;
  /// Writes the structure as far as it is known, or learns it; empty: the type alone determines it.
  SharedFunction<void(PassState&)> learned{};
};

/// A description of elements and their origin: src/input/pipeline/pipeline.hpp.
struct Pipeline;
using PipelineHandle = std::shared_ptr<const Pipeline>;  // owners: datasets, passes, and derived pipelines

const ElementType& type_of(const PipelineHandle& pipeline) noexcept;
/// The number of elements of a pass.
std::int64_t cardinality_of(const PipelineHandle& pipeline) noexcept;
/// The counts of which a pass has a number.
const std::vector<IterationCount>& counts_of(const PipelineHandle& pipeline) noexcept;
/// Opens the pass with this key.
std::unique_ptr<Iterator<FlatElement>> open_pipeline(const PipelineHandle& pipeline, const IterationKey& key);

/// Values of cardinality that are not counts, as in tf.data.
inline constexpr std::int64_t kInfiniteCardinality = -1;
inline constexpr std::int64_t kUnknownCardinality = -2;

// Sources. `what` is the call that messages name.

/// Slices along the tensors' first axis. Tensors on the host are not copied.
/// @throws InvalidArgument  no tensors, a scalar, different numbers of rows.
PipelineHandle slices_pipeline(std::vector<Tensor> tensors, ElementType type, std::string_view what);
/// @throws InvalidArgument  the step is 0.
PipelineHandle range_pipeline(std::int64_t start, std::int64_t stop, std::int64_t step, ElementType type);
using GeneratorIteratorFactory = SharedFunction<std::unique_ptr<Iterator<FlatElement>>()>;
/// The elements of the user's iterators.
PipelineHandle generator_pipeline(GeneratorIteratorFactory open, ElementType type);
using FileIteratorFactory =
    SharedFunction<std::unique_ptr<Iterator<FlatElement>>(const std::filesystem::path&)>;
/// The files' elements, one file after the other.
PipelineHandle files_pipeline(std::vector<std::filesystem::path> paths, FileIteratorFactory open,
                              ElementType type);

// Transformations; Dataset documents their effects and errors.

inline constexpr std::int64_t kForever = -1;
inline constexpr std::int64_t kShardHint = -1;

PipelineHandle shuffled(const PipelineHandle& input, std::int64_t buffer_size,
                        std::optional<std::uint64_t> seed, bool reshuffle_each_iteration);
PipelineHandle batched(const PipelineHandle& input, std::int64_t batch_size, bool drop_remainder);
PipelineHandle padded_batched(const PipelineHandle& input, std::int64_t batch_size,
                              const PaddedBatchOptions& options);
PipelineHandle unbatched(const PipelineHandle& input);
PipelineHandle windowed(const PipelineHandle& input, std::int64_t size, std::int64_t shift,
                        std::int64_t stride, bool drop_remainder);
PipelineHandle repeated(const PipelineHandle& input, std::int64_t count);
PipelineHandle taken(const PipelineHandle& input, std::int64_t count);
PipelineHandle skipped(const PipelineHandle& input, std::int64_t count);
/// The party that chooses the shard.
enum class ShardedBy : std::int8_t {
  user,
  hint,        ///< Other processes may have the other shards.
  auto_shard,  ///< As hint; in addition a shard with elements fails if another has none.
};
/// @param num_shards, index  both kShardHint: fill_hints sets them; until then passes throw.
PipelineHandle sharded(const PipelineHandle& input, std::int64_t num_shards, std::int64_t index,
                       ShardedBy by = ShardedBy::user);
/// The same pipeline, whose passes are counted as passes of a shard.
PipelineHandle counted_as_shard(const PipelineHandle& input, std::int64_t num_shards, std::int64_t index);
PipelineHandle concatenated(const PipelineHandle& first, const PipelineHandle& second);
PipelineHandle cached(const PipelineHandle& input);
/// Saves and restores the lengths and keys of a cache file's elements.
struct StructureStore {
  SharedFunction<std::vector<std::string>()> save;  ///< Called after the first element.
  /// Restores what was saved. @param max_leaves  the most leaves that an element can have. @return the number
  /// of leaves, or nothing if elements of the type cannot have this structure.
  SharedFunction<std::optional<std::size_t>(const std::vector<std::string>& saved, std::uint64_t max_leaves)>
      load;
};
/// Opens a pass over a pipeline, which infers its elements' structure.
using PartIteratorFactory = SharedFunction<std::unique_ptr<Iterator<FlatElement>>(const PipelineHandle& part,
                                                                                  const IterationKey& key)>;
/// @param open  opens the input or a part of it; infers the structure that `save` saves.
PipelineHandle cached_in_file(const PipelineHandle& input, const std::filesystem::path& path,
                              PartIteratorFactory open, ElementType type, StructureStore structure);
PipelineHandle prefetched(const PipelineHandle& input, std::int64_t buffer_size);
/// Called for each element that is left out, with its number, from 1, in the pass.
using ErrorReport = SharedFunction<void(const Error& error, std::int64_t number)>;
/// @param max  kForever: any number.
PipelineHandle errors_ignored(const PipelineHandle& input, std::int64_t max, ErrorReport report);
PipelineHandle zipped(std::vector<PipelineHandle> inputs, ElementType type);
PipelineHandle sampled(std::vector<PipelineHandle> inputs, std::vector<double> weights,
                       std::optional<std::uint64_t> seed, bool stop_on_empty);
PipelineHandle chosen(std::vector<PipelineHandle> inputs, const PipelineHandle& choices, bool stop_on_empty);

using ElementFunction = SharedFunction<FlatElement(FlatElement&&)>;
using ElementPredicate = SharedFunction<bool(const FlatElement&)>;
using ElementLength = SharedFunction<std::int64_t(const FlatElement&)>;
using DatasetFunction = SharedFunction<PipelineHandle(FlatElement&& element)>;
/// The function of a pass, which keeps a state from element to element.
class StatefulFunction {
 public:
  virtual ~StatefulFunction() = default;
  virtual FlatElement call(FlatElement&& element) = 0;
  /// As Iterator::transfer. @throws Unsupported  the state is of a type that cannot be written.
  virtual void transfer(PassState& state) = 0;
};
using StatefulFunctionFactory = SharedFunction<std::unique_ptr<StatefulFunction>()>;
/// @param what  the call that messages name; a literal.
PipelineHandle mapped(const PipelineHandle& input, ElementFunction fn, ElementType type,
                      const ParallelOptions& options, std::string_view what);
PipelineHandle filtered(const PipelineHandle& input, ElementPredicate predicate);
PipelineHandle taken_while(const PipelineHandle& input, ElementPredicate predicate);
PipelineHandle bucketed(const PipelineHandle& input, ElementLength length, const BucketOptions& options);
PipelineHandle scanned(const PipelineHandle& input, StatefulFunctionFactory make, ElementType type);
/// The elements with one more leaf, a u64 scalar that is another for each element and pass.
PipelineHandle seeded(const PipelineHandle& input, std::uint64_t seed);
/// @param open  opens the dataset that `fn` returns. @param what  the call that messages name; a literal.
PipelineHandle interleaved(const PipelineHandle& input, DatasetFunction fn, PartIteratorFactory open,
                           ElementType type, std::int64_t cycle_length, std::int64_t block_length,
                           const ParallelOptions& options, std::string_view what);

/// How the input is shared out: resolves `automatic`, with its warning. @throws NotFound  as auto_shard.
AutoShardPolicy resolve_auto_shard(const Pipeline& input, const InputContext& context,
                                   AutoShardPolicy policy);
PipelineHandle auto_sharded(const PipelineHandle& input, const InputContext& context, AutoShardPolicy policy);

/// @throws InvalidArgument  the pipeline's structure is of another type.
void check_element_type(const Pipeline& pipeline, const std::type_info& type);

}  // namespace lockstep::detail

#pragma GCC visibility pop
