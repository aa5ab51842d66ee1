#pragma once

#include <any>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <variant>
#include <vector>

#include <lockstep/detail/shared_function.hpp>
#include <lockstep/input/auto_shard_policy.hpp>
#include <lockstep/input/detail/iteration_key.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/parallel_options.hpp>
#include <lockstep/input/tensor_spec.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

/// What a Dataset is made of, its element type erased.
namespace lockstep::detail {

/// The tensors of an element, in the order of its leaves; on the host.
using FlatElement = std::vector<Tensor>;

/// One pass over values. Used by one thread at a time.
template <class T>
class Iterator {
 public:
  virtual ~Iterator() = default;
  /// The next value; nothing at the end, and ever after.
  virtual std::optional<T> next() = 0;
};

/// Starts the pass with this key.
template <class T>
using IteratorFactory = SharedFunction<std::unique_ptr<Iterator<T>>(const IterationKey&)>;

/// A tensor without its elements.
struct LeafType {
  Shape shape;
  DType dtype;
};

/// Elements with random access. Immutable; used from any threads.
class RowTable {
 public:
  virtual ~RowTable() = default;
  virtual std::int64_t num_rows() const noexcept = 0;
  virtual std::size_t num_leaves() const noexcept = 0;
  /// What some rows of a leaf make, one after the other.
  virtual LeafType leaf(std::size_t index, std::int64_t num_rows) const = 0;
  /// Copies rows of a leaf, each in [0, num_rows), one after the other.
  virtual void gather(std::size_t leaf, std::span<const std::int64_t> rows, std::byte* destination) const = 0;
};

class Batch;                                       // input/rows/batch.hpp
using BatchHandle = std::shared_ptr<const Batch>;  // owners: passes, and tensors that are views of its rows

/// Elements as numbers of rows in a table: reordering and batching them moves no data until the batch is
/// made.
struct TableRows {
  std::shared_ptr<const RowTable> table;  // owners: every pipeline and pass over it
  IteratorFactory<std::int64_t> open;
};

/// The static type of elements, and how their tensors are arranged in it.
struct ElementType {
  const std::type_info* type;
  std::size_t num_leaves;  ///< 0 where lengths or keys are known only from the first element on.
  /// An element with empty tensors; an empty `any` where it is not known yet. Called from any thread.
  SharedFunction<std::any()> structure;
  /// The lengths and keys as text, for comparisons and messages; empty where they are not known yet, or the
  /// type says it all.
  SharedFunction<std::string()> text;
};

struct Pipeline;
using PipelineHandle = std::shared_ptr<const Pipeline>;  // owners: datasets, passes, and what is made of it
/// A pipeline again, for one of several shards.
using Resharding = SharedFunction<PipelineHandle(std::int64_t num_shards, std::int64_t index)>;

/// True the first time. Thread-safe. A copy has its own first time.
class FirstTime {
 public:
  FirstTime() = default;
  FirstTime(const FirstTime&) noexcept {}
  FirstTime& operator=(const FirstTime&) = delete;
  bool operator()() const noexcept { return !is_over_.test_and_set(); }

 private:
  mutable std::atomic_flag is_over_;
};

/// Numbers of elements that are none, as tf.data has them.
inline constexpr std::int64_t kInfiniteCardinality = -1;
inline constexpr std::int64_t kUnknownCardinality = -2;

/// How elements come about. Immutable; any number of passes may be under way, on any threads.
struct Pipeline {
  /// Batches: of these no row is copied before it is known where to.
  std::variant<TableRows, IteratorFactory<BatchHandle>, IteratorFactory<FlatElement>> elements;
  std::vector<TensorSpec> spec;            ///< One for each leaf of an element; empty: not known how many.
  std::optional<std::int64_t> batch_size;  ///< As given to the last `batch`.
  ElementType type;
  /// The same pipeline reading files index, index + num_shards, … only; empty where no files are read.
  Resharding shard_files{};
  /// The same pipeline with this shard where it has kShardHint; empty where it has none.
  Resharding fill_hints{};
  FirstTime warns{};                     ///< Of what auto_sharded has to say about it.
  std::vector<IterationCount> counts{};  ///< Of the transformations whose passes differ, inputs' first.
  int position = 0;         ///< How many such transformations, and repetitions, are one after the other.
  std::uint64_t shard = 0;  ///< As IterationCount::shard, of transformations to come.
  std::int64_t cardinality = kUnknownCardinality;  ///< How many elements a pass has.

  /// The next pass.
  std::unique_ptr<Iterator<FlatElement>> open() const { return open(IterationKey::next(counts)); }
  std::unique_ptr<Iterator<FlatElement>> open(const IterationKey& key) const;
  std::unique_ptr<Iterator<BatchHandle>> open_batches(const IterationKey& key) const;
};

// Sources. `what` is the call that messages name.

/// Slices along the tensors' first axis. Tensors on the host are not copied.
/// @throws InvalidArgument  no tensors, a scalar, different numbers of rows.
PipelineHandle slices_pipeline(std::vector<Tensor> tensors, ElementType type, std::string_view what);
/// @throws InvalidArgument  the step is 0.
PipelineHandle range_pipeline(std::int64_t start, std::int64_t stop, std::int64_t step, ElementType type);
using GeneratorOpener = SharedFunction<std::unique_ptr<Iterator<FlatElement>>()>;
/// What the user's passes give.
PipelineHandle generator_pipeline(GeneratorOpener open, ElementType type);
using FileOpener = std::function<std::unique_ptr<Iterator<FlatElement>>(const std::filesystem::path&)>;
/// The files' elements, one file after the other.
PipelineHandle files_pipeline(std::vector<std::filesystem::path> paths, FileOpener open, ElementType type);

// Transformations; Dataset says what they do and throw.

inline constexpr std::int64_t kForever = -1;
inline constexpr std::int64_t kShardHint = -1;

PipelineHandle shuffled(const PipelineHandle& input, std::int64_t buffer_size,
                        std::optional<std::uint64_t> seed);
PipelineHandle batched(const PipelineHandle& input, std::int64_t batch_size, bool drop_remainder);
PipelineHandle repeated(const PipelineHandle& input, std::int64_t count);
PipelineHandle taken(const PipelineHandle& input, std::int64_t count);
PipelineHandle skipped(const PipelineHandle& input, std::int64_t count);
/// Who says which shard it is.
enum class ShardedBy : std::int8_t {
  user,
  hint,        ///< The other shards may be other processes'.
  auto_shard,  ///< The same, and a shard with elements fails where another has none.
};
/// @param num_shards, index  both kShardHint: what fill_hints says; without that, passes throw.
PipelineHandle sharded(const PipelineHandle& input, std::int64_t num_shards, std::int64_t index,
                       ShardedBy by = ShardedBy::user);
/// The same pipeline, whose passes are counted as a shard's.
PipelineHandle counted_as_shard(const PipelineHandle& input, std::int64_t num_shards, std::int64_t index);
PipelineHandle concatenated(const PipelineHandle& first, const PipelineHandle& second);
PipelineHandle cached(const PipelineHandle& input);
/// How a cache file knows its elements' lengths and keys.
struct StructureStore {
  std::function<std::vector<std::string>()> save;  ///< Of an element, once there was one.
  /// Learns what was saved. @param max_leaves  that an element can have. @return how many it has; nothing
  /// where elements of the type are not like that.
  std::function<std::optional<std::size_t>(const std::vector<std::string>& saved, std::uint64_t max_leaves)>
      load;
};
/// A pass over a pipeline, which learns its elements' structure.
using PartOpener = std::function<std::unique_ptr<Iterator<FlatElement>>(const PipelineHandle& part,
                                                                        const IterationKey& key)>;
/// @param open  of the input or a part of it; learns what `save` saves.
PipelineHandle cached_in_file(const PipelineHandle& input, const std::filesystem::path& path, PartOpener open,
                              ElementType type, StructureStore structure);
PipelineHandle prefetched(const PipelineHandle& input, std::int64_t buffer_size);
PipelineHandle zipped(std::vector<PipelineHandle> inputs, ElementType type);

using ElementFunction = std::function<FlatElement(FlatElement&&)>;
using ElementPredicate = std::function<bool(const FlatElement&)>;
using DatasetFunction = std::function<PipelineHandle(FlatElement&& element)>;
PipelineHandle mapped(const PipelineHandle& input, ElementFunction fn, ElementType type,
                      const ParallelOptions& options);
PipelineHandle filtered(const PipelineHandle& input, ElementPredicate predicate);
/// @param open  of what `fn` gives.
PipelineHandle interleaved(const PipelineHandle& input, DatasetFunction fn, PartOpener open, ElementType type,
                           std::int64_t cycle_length, std::int64_t block_length,
                           const ParallelOptions& options);

/// How the input is shared out: `automatic` is told apart, with its warning. @throws NotFound  as auto_shard.
AutoShardPolicy resolve_auto_shard(const Pipeline& input, const InputContext& context,
                                   AutoShardPolicy policy);
PipelineHandle auto_sharded(const PipelineHandle& input, const InputContext& context, AutoShardPolicy policy);

/// The length of the tensors' first axis. @param what  the call that messages name.
/// @throws InvalidArgument  no tensors, a scalar, different numbers of rows.
std::int64_t num_rows(const std::vector<Tensor>& tensors, std::string_view what);

/// @throws InvalidArgument  the pipeline's structure is of another type.
void check_element_type(const Pipeline& pipeline, const std::type_info& type);

}  // namespace lockstep::detail

#pragma GCC visibility pop
