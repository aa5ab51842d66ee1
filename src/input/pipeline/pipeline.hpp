#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/input/detail/iteration_key.hpp>
#include <lockstep/input/detail/pipeline.hpp>
#include <lockstep/input/tensor_spec.hpp>

/// The description behind a Dataset, with its element type erased.
namespace lockstep::detail {

/// A tensor without its elements.
struct LeafType {
  Shape shape;
  DType dtype;
};

/// Elements with random access. Immutable; any threads may use it.
class RowTable {
 public:
  virtual ~RowTable() = default;
  virtual std::int64_t num_rows() const noexcept = 0;
  virtual std::size_t num_leaves() const noexcept = 0;
  /// The dtype and shape of some rows of a leaf, one after the other.
  virtual LeafType leaf(std::size_t index, std::int64_t num_rows) const = 0;
  /// Copies rows of a leaf, each in [0, num_rows), one after the other.
  virtual void gather(std::size_t leaf, std::span<const std::int64_t> rows, std::byte* destination) const = 0;
};

class Batch;                                       // input/rows/batch.hpp
using BatchHandle = std::shared_ptr<const Batch>;  // owners: passes, and tensors that are views of its rows

/// Elements as row numbers of a table: reordering and batching them moves no data until the batch is made.
struct TableRows {
  std::shared_ptr<const RowTable> table;  // owners: every pipeline and pass over it
  IteratorFactory<std::int64_t> open;
};

/// Makes a pipeline anew for one of several shards.
using Resharding = SharedFunction<PipelineHandle(std::int64_t num_shards, std::int64_t index)>;

/// A call that makes a pipeline, as a state of its passes names it. Immutable once the call has returned.
struct Stage {
  std::string text;
  std::vector<std::shared_ptr<Stage>> inputs{};  // owners: the pipelines derived from it
  /// Write or read what is not in the call: ElementType::learned of its elements, a seed that was drawn.
  std::vector<SharedFunction<void(PassState&)>> learned{};
  /// What of `text` decides which elements there are; nothing: all of it.
  std::optional<std::string> elements{};
};

/// True on the first call. Thread-safe. A copy has its own first call.
class FirstTime {
 public:
  FirstTime() = default;
  FirstTime(const FirstTime&) noexcept {}
  FirstTime& operator=(const FirstTime&) = delete;
  bool operator()() const noexcept { return !is_over_.test_and_set(); }

 private:
  mutable std::atomic_flag is_over_;
};

/// A description of elements and their origin. Immutable; any number of passes may run at once, on any
/// threads.
struct Pipeline {
  /// The rows of batches are copied only when their destination is known.
  std::variant<TableRows, IteratorFactory<BatchHandle>, IteratorFactory<FlatElement>> elements;
  std::vector<TensorSpec> spec;  ///< One for each leaf of an element; empty: the number of leaves is unknown.
  std::optional<std::int64_t> batch_size;  ///< As given to the last `batch`.
  ElementType type;
  /// The same pipeline reading only files index, index + num_shards, …; empty if no files are read.
  Resharding shard_files{};
  /// The same pipeline with this shard in place of kShardHint; empty if it has no kShardHint.
  Resharding fill_hints{};
  FirstTime warns{};                     ///< For auto_sharded's warning.
  std::vector<IterationCount> counts{};  ///< For transformations whose passes differ, inputs' first.
  int position = 0;                      ///< Number of such transformations and repetitions in sequence.
  std::uint64_t shard = 0;               ///< IterationCount::shard for later transformations.
  std::int64_t cardinality = kUnknownCardinality;  ///< Number of elements of a pass.
  std::shared_ptr<Stage> stage{};                  ///< The call that made it.

  /// The next pass.
  std::unique_ptr<Iterator<FlatElement>> open() const { return open(IterationKey::next(counts)); }
  std::unique_ptr<Iterator<FlatElement>> open(const IterationKey& key) const;
  std::unique_ptr<Iterator<BatchHandle>> open_batches(const IterationKey& key) const;
};

}  // namespace lockstep::detail
