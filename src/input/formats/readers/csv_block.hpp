#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/input/readers.hpp>

#include "input/rows/host_rows.hpp"

namespace lockstep::detail {

/// The columns of records that are given at once.
class CsvBlock {
 public:
  CsvBlock(const std::vector<readers::CsvColumn>& columns, std::int64_t most)
      : most_(std::min(most, kMostRows)), columns_(columns.size()) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const readers::CsvColumn& form = columns[i];
      has_text_ = has_text_ || form.is_text;
      if (form.is_text) {
        columns_[i].ends.reserve(static_cast<std::size_t>(most_));  // so that end_row needs no memory
        continue;
      }
      columns_[i].values = Tensor::empty(Shape(most_), form.dtype, input_device());
      columns_[i].data = static_cast<std::byte*>(columns_[i].values.data());
      columns_[i].size = size_of(form.dtype);
    }
  }

  std::int64_t num_rows() const noexcept { return num_rows_; }
  bool is_full() const noexcept { return num_rows_ == most_ || is_full_; }
  /// The next row's memory in a column of numbers.
  std::byte* value(std::size_t i) {
    return columns_[i].data + static_cast<std::size_t>(num_rows_) * columns_[i].size;
  }
  void set_text(std::size_t i, std::string_view text) {
    Column& column = columns_[i];
    // What a row that turned out to be wrong has left.
    column.text.resize(column.ends.empty() ? 0 : static_cast<std::size_t>(column.ends.back()));
    column.text += text;
  }
  void end_row() noexcept {
    ++num_rows_;
    if (!has_text_) return;
    for (Column& column : columns_) {
      if (column.size > 0) continue;
      column.ends.push_back(static_cast<std::int64_t>(column.text.size()));
      if (column.text.size() > kMostTextBytes) is_full_ = true;
    }
  }
  RowBlock take() && {
    RowBlock block{{}, num_rows_};
    if (num_rows_ == 0) return block;
    for (Column& column : columns_) {
      if (column.size > 0) {
        block.leaves.push_back({num_rows_ < most_ ? column.values.slice(0, num_rows_) : column.values});
        column.values = Tensor();  // so that nothing else uses its memory
        continue;
      }
      Tensor text = Tensor::empty(Shape(column.ends.back()), DType::u8, input_device());
      if (text.size() > 0)
        std::memcpy(text.data(), column.text.data(), static_cast<std::size_t>(text.size()));
      block.leaves.push_back({std::move(text), std::move(column.ends)});
    }
    return block;
  }

 private:
  static constexpr std::int64_t kMostRows = 1024;
  static constexpr std::size_t kMostTextBytes = std::size_t{1} << 20;  // of a column, but for the last row

  struct Column {
    Tensor values{};
    std::byte* data = nullptr;  // of `values`
    std::size_t size = 0;       // of a number; 0: the column is text
    std::string text{};
    std::vector<std::int64_t> ends{};
  };
  std::int64_t most_, num_rows_ = 0;
  bool is_full_ = false;
  bool has_text_ = false;  // in any column
  std::vector<Column> columns_;
};

}  // namespace lockstep::detail
