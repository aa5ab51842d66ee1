#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <lockstep/input/detail/row_block.hpp>

/// The rows of a RowRun.
namespace lockstep::detail {

std::int64_t num_rows(const RowRun& run);
/// Of a row. @pre row < num_rows(run).
Shape row_shape(const RowRun& run, std::int64_t row);
/// Where the row begins in the run's values, in elements. @pre as row_shape.
std::int64_t begin_of(const RowRun& run, std::int64_t row);
/// The row as a tensor that shares the run's memory. @pre as row_shape.
Tensor row_of(const RowRun& run, std::int64_t row);
/// Calls f(begin, end, run) for the parts of runs that lie in [begin, end), which are rows of all of them.
template <class F>
void for_each_part(const std::vector<RowRun>& runs, std::int64_t begin, std::int64_t end, const F& f) {
  for (const RowRun& run : runs) {
    if (end <= 0) return;
    const std::int64_t size = num_rows(run);
    if (begin < size) f(begin, end < size ? end : size, run);
    begin = begin < size ? 0 : begin - size;
    end -= size;
  }
}

/// Rows of rank 1 as bytes that are given one after the other, as one run.
class RunBuilder {
 public:
  /// @param num_rows, size_bytes  of all rows.
  RunBuilder(std::int64_t num_rows, std::int64_t size_bytes);
  /// @pre the bytes and rows are in the end those that were announced.
  void add(const char* data, std::size_t size_bytes) {
    if (size_bytes > 0) std::memcpy(next_ + end_, data, size_bytes);
    end_ += static_cast<std::int64_t>(size_bytes);
    if (num_rows_ == 0) first_ = end_;
    ends_[num_rows_++] = end_;
    is_even_ = is_even_ && static_cast<std::int64_t>(size_bytes) == first_;
  }
  /// Rows of one length become a matrix. @pre a row was added.
  RowRun take() &&;

 private:
  Tensor values_;
  char* next_;
  std::int64_t end_ = 0, first_ = 0;  // of the last row, and of the first
  std::vector<std::int64_t> ends_;
  std::size_t num_rows_ = 0;
  bool is_even_ = true;  // whether all rows have the length of the first
};

}  // namespace lockstep::detail
