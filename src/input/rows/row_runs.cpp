#include "input/rows/row_runs.hpp"

#include "input/rows/host_rows.hpp"

namespace lockstep::detail {

std::int64_t num_rows(const RowRun& run) {
  if (run.is_row) return 1;
  return run.ends.empty() ? run.values.shape()[0] : static_cast<std::int64_t>(run.ends.size());
}

Shape row_shape(const RowRun& run, std::int64_t row) {
  if (run.is_row) return run.values.shape();
  if (run.ends.empty()) return run.values.shape().without(0);
  return Shape(run.ends[static_cast<std::size_t>(row)] - begin_of(run, row));
}

std::int64_t begin_of(const RowRun& run, std::int64_t row) {
  if (row == 0) return 0;
  return run.ends.empty() ? row * row_shape(run, row).size() : run.ends[static_cast<std::size_t>(row) - 1];
}

Tensor row_of(const RowRun& run, std::int64_t row) {
  if (run.is_row) return run.values;
  if (run.ends.empty()) return run.values.slice(row, row + 1).reshape(row_shape(run, row));
  return run.values.slice(begin_of(run, row), run.ends[static_cast<std::size_t>(row)]);
}

RunBuilder::RunBuilder(std::int64_t num_rows, std::int64_t size_bytes)
    : values_(Tensor::empty(Shape(size_bytes), DType::u8, input_device())),
      next_(static_cast<char*>(values_.data())),
      ends_(static_cast<std::size_t>(num_rows)) {}

RowRun RunBuilder::take() && {
  if (is_even_) return {values_.reshape(Shape(ends_.size(), ends_.front()))};
  return {std::move(values_), std::move(ends_)};
}

}  // namespace lockstep::detail
