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
#include <lockstep/input/auto_shard_policy.hpp>
#include <lockstep/input/detail/iteration_key.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/parallel_options.hpp>
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

/// How elements come about: src/input/pipeline/pipeline.hpp.
struct Pipeline;
using PipelineHandle = std::shared_ptr<const Pipeline>;  // owners: datasets, passes, and what is made of it

const ElementType& type_of(const PipelineHandle& pipeline) noexcept;
/// How many elements a pass has.
std::int64_t cardinality_of(const PipelineHandle& pipeline) noexcept;
/// The pass with this key.
std::unique_ptr<Iterator<FlatElement>> open_pipeline(const PipelineHandle& pipeline, const IterationKey& key);

/// Numbers of elements that are none, as tf.data has them.
inline constexpr std::int64_t kInfiniteCardinality = -1;
inline constexpr std::int64_t kUnknownCardinality = -2;

// Sources. `what` is the call that messages name.

/// Slices along the tensors' first axis. Tensors on the host are not copied.
/// @throws InvalidArgument  no tensors, a scalar, different numbers of rows.
PipelineHandle slices_pipeline(std::vector<Tensor> tensors, ElementType type, std::string_view what);
/// @throws InvalidArgument  the step is 0.
PipelineHandle range_pipeline(std::int64_t start, std::int64_t stop, std::int64_t step, ElementType type);
using GeneratorOpener = SharedFunction<std::unique_ptr<Iterator<FlatElement>>()>;
/// What the user's passes give.
PipelineHandle generator_pipeline(GeneratorOpener open, ElementType type);
using FileOpener = SharedFunction<std::unique_ptr<Iterator<FlatElement>>(const std::filesystem::path&)>;
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
  SharedFunction<std::vector<std::string>()> save;  ///< Of an element, once there was one.
  /// Learns what was saved. @param max_leaves  that an element can have. @return how many it has; nothing
  /// where elements of the type are not like that.
  SharedFunction<std::optional<std::size_t>(const std::vector<std::string>& saved, std::uint64_t max_leaves)>
      load;
};
/// A pass over a pipeline, which learns its elements' structure.
using PartOpener = SharedFunction<std::unique_ptr<Iterator<FlatElement>>(const PipelineHandle& part,
                                                                         const IterationKey& key)>;
/// @param open  of the input or a part of it; learns what `save` saves.
PipelineHandle cached_in_file(const PipelineHandle& input, const std::filesystem::path& path, PartOpener open,
                              ElementType type, StructureStore structure);
PipelineHandle prefetched(const PipelineHandle& input, std::int64_t buffer_size);
PipelineHandle zipped(std::vector<PipelineHandle> inputs, ElementType type);

using ElementFunction = SharedFunction<FlatElement(FlatElement&&)>;
using ElementPredicate = SharedFunction<bool(const FlatElement&)>;
using DatasetFunction = SharedFunction<PipelineHandle(FlatElement&& element)>;
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

/// @throws InvalidArgument  the pipeline's structure is of another type.
void check_element_type(const Pipeline& pipeline, const std::type_info& type);

}  // namespace lockstep::detail

#pragma GCC visibility pop
