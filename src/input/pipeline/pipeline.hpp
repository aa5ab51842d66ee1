#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <lockstep/input/detail/iteration_key.hpp>
#include <lockstep/input/detail/pipeline.hpp>
#include <lockstep/input/tensor_spec.hpp>

/// What a Dataset is made of, its element type erased.
namespace lockstep::detail {

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

}  // namespace lockstep::detail
