#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/input/detail/pass_state.hpp>

#include "input/pipeline/pipeline.hpp"
#include "input/rows/row_runs.hpp"

namespace lockstep::detail {

/// For each leaf the rows of the elements that have been gathered.
class Columns {
 public:
  void add(FlatElement&& element);
  void add(RowBlock&& block);
  /// Gathers elements until there are `num_rows`, or the input ends. If it throws, what was gathered stays.
  void fill(Iterator<FlatElement>& input, std::int64_t num_rows);
  std::int64_t num_rows() const noexcept { return num_rows_; }
  /// Takes what was gathered.
  std::vector<std::vector<RowRun>> take() {
    num_rows_ = 0;
    return std::exchange(columns_, {});
  }
  void transfer(PassState& state);

 private:
  std::vector<std::vector<RowRun>> columns_;
  std::int64_t num_rows_ = 0;
};

inline void Columns::add(FlatElement&& element) {
  columns_.resize(element.size());
  for (std::size_t leaf = 0; leaf < columns_.size(); ++leaf)
    columns_[leaf].push_back({std::move(element[leaf]), {}, true});
  ++num_rows_;
}

inline void Columns::add(RowBlock&& block) {
  columns_.resize(block.leaves.size());
  for (std::size_t leaf = 0; leaf < columns_.size(); ++leaf)
    columns_[leaf].push_back(std::move(block.leaves[leaf]));
  num_rows_ += block.num_rows;
}

inline void Columns::fill(Iterator<FlatElement>& input, std::int64_t num_rows) {
  while (num_rows_ < num_rows) {
    if (std::optional<RowBlock> block = input.next_rows(num_rows - num_rows_)) {
      if (block->num_rows == 0) return;
      add(std::move(*block));
    } else if (std::optional<FlatElement> element = input.next()) {
      add(std::move(*element));
    } else {
      return;
    }
  }
}

inline void Columns::transfer(PassState& state) {
  std::vector<std::vector<Tensor>> columns;
  for (const std::vector<RowRun>& runs : columns_) {
    std::vector<Tensor>& rows = columns.emplace_back();
    for (const RowRun& run : runs)
      for (std::int64_t row = 0; row < lockstep::detail::num_rows(run); ++row)
        rows.push_back(row_of(run, row));
  }
  state(columns, num_rows_);
  for (const std::vector<Tensor>& column : columns)
    if (static_cast<std::int64_t>(column.size()) != num_rows_)
      state.fail("the components of a batch have different numbers of rows");
  if (state.is_saving()) return;
  columns_.clear();
  for (std::vector<Tensor>& column : columns) {
    std::vector<RowRun>& runs = columns_.emplace_back();
    for (Tensor& row : column) runs.push_back({std::move(row), {}, true});
  }
}

}  // namespace lockstep::detail
