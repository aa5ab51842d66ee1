#pragma once

#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/values/indexed_slices.hpp>

namespace lockstep::detail {

/// The sparse rows' indices in the order in which they are scattered.
class ScatterPlan {
 public:
  /// Waits for the device to read the indices.
  /// @throws InvalidArgument  slices that do not fit together, an index out of range; names them and `what`.
  ScatterPlan(const IndexedSlices& slices, const char* what);

  /// The same with its rows on that device, so that `apply` there takes no memory.
  ScatterPlan on(const Device& device) const;

  /// dense[index] := dense[index] op row, for all rows, those of one index in their order; enqueued on
  /// dense's device's current stream. @pre dense has the slices' dense shape and dtype.
  void apply(backend::ScatterOp op, Tensor& dense) const;

 private:
  Tensor values_;  // [n, columns]
  Tensor groups_;  // the targets, the begins and the rows of backend::RowGroups, one after the other, on the
                   // host
  std::int64_t num_targets_ = 0;
};

}  // namespace lockstep::detail
