#pragma once

#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/values/indexed_slices.hpp>

namespace lockstep::detail {

/// The sparse rows' indices, sorted into the groups in which rows are scattered.
class ScatterPlan {
 public:
  /// Waits for the device to read the indices.
  /// @throws InvalidArgument  the slices do not fit together, or an index is out of range; names them and
  /// `what`.
  ScatterPlan(const IndexedSlices& slices, const char* what);

  /// The same with its rows on `device`, so that `apply` there takes no memory.
  ScatterPlan on(const Device& device) const;

  /// dense[index] := dense[index] op row, for all rows; rows of one index are applied in their order.
  /// Enqueued on the current stream of dense's device. @pre dense has the slices' dense shape and dtype.
  void apply(backend::ScatterOp op, Tensor& dense) const;

 private:
  Tensor values_;  // [n, columns]
  Tensor groups_;  // targets, begins and rows of backend::RowGroups, one after the other, on the host
  std::int64_t num_targets_ = 0;
};

}  // namespace lockstep::detail
