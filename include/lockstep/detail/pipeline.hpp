#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <typeinfo>
#include <variant>
#include <vector>

#include <lockstep/input/tensor_spec.hpp>
#include <lockstep/tensor.hpp>

/// What a Dataset is made of, its element type erased.
namespace lockstep::detail {

/// The tensors of an element, in the order of its leaves; on the host.
using FlatElement = std::vector<Tensor>;

/// One pass over values. Used by one thread at a time.
template <class T>
class Pass {
 public:
  virtual ~Pass() = default;
  /// The next value; nothing at the end, and ever after.
  virtual std::optional<T> next() = 0;
};

/// Starts a pass.
template <class T>
using Opener = std::function<std::unique_ptr<Pass<T>>()>;

/// Elements with random access.
class RowTable {
 public:
  virtual ~RowTable() = default;
  virtual std::int64_t num_rows() const noexcept = 0;
  /// A fresh batch of these rows, each in [0, num_rows).
  virtual FlatElement gather(std::span<const std::int64_t> rows) const = 0;
};

/// Elements as numbers of rows in a table: reordering and batching them moves no data until the batch is
/// made.
struct TableRows {
  std::shared_ptr<const RowTable> table;  // owners: every pipeline and pass over it
  Opener<std::int64_t> open;
};

/// How elements come about. Immutable; any number of passes may be under way, on any threads.
struct Pipeline {
  std::variant<TableRows, Opener<FlatElement>> elements;
  std::vector<TensorSpec> spec;            ///< One for each leaf of an element.
  std::optional<std::int64_t> batch_size;  ///< As given to the last `batch`.
  std::any structure;                      ///< An element of the static type with empty tensors.

  std::unique_ptr<Pass<FlatElement>> open() const;
};

using PipelineHandle = std::shared_ptr<const Pipeline>;  // owners: datasets

// Sources. `what` is the call that messages name.

/// Slices along the tensors' first axis. Tensors on the host are not copied.
/// @throws InvalidArgument  no tensors, a scalar, different numbers of rows.
PipelineHandle slices_pipeline(std::vector<Tensor> tensors, std::any structure, std::string_view what);
/// @throws InvalidArgument  the step is 0.
PipelineHandle range_pipeline(std::int64_t start, std::int64_t stop, std::int64_t step);

// Transformations; Dataset says what they do and throw.

inline constexpr std::int64_t kForever = -1;

PipelineHandle shuffled(const PipelineHandle& input, std::int64_t buffer_size,
                        std::optional<std::uint64_t> seed);
PipelineHandle batched(const PipelineHandle& input, std::int64_t batch_size, bool drop_remainder);
PipelineHandle repeated(const PipelineHandle& input, std::int64_t count);
PipelineHandle taken(const PipelineHandle& input, std::int64_t count);
PipelineHandle skipped(const PipelineHandle& input, std::int64_t count);

/// @throws InvalidArgument  the pipeline's structure is of another type.
void check_element_type(const Pipeline& pipeline, const std::type_info& type);

}  // namespace lockstep::detail
