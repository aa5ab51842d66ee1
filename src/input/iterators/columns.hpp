#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/input/detail/pass_state.hpp>

#include "input/pipeline/pipeline.hpp"

namespace lockstep::detail {

/// For each leaf the tensors of the elements that have been gathered.
class Columns {
 public:
  void add(FlatElement&& element) {
    columns_.resize(element.size());
    for (std::size_t leaf = 0; leaf < columns_.size(); ++leaf)
      columns_[leaf].push_back(std::move(element[leaf]));
    ++num_rows_;
  }
  std::int64_t num_rows() const noexcept { return num_rows_; }
  /// Takes what was gathered.
  std::vector<std::vector<Tensor>> take() {
    num_rows_ = 0;
    return std::exchange(columns_, {});
  }
  void transfer(PassState& state) {
    state(columns_, num_rows_);
    for (const std::vector<Tensor>& column : columns_)
      if (static_cast<std::int64_t>(column.size()) != num_rows_)
        state.fail("the components of a batch have different numbers of rows");
  }

 private:
  std::vector<std::vector<Tensor>> columns_;
  std::int64_t num_rows_ = 0;
};

}  // namespace lockstep::detail
