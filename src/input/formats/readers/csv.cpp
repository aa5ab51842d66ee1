#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "input/formats/compressed/compressed_file.hpp"
#include "input/formats/readers/csv_block.hpp"
#include "input/formats/readers/csv_numbers.hpp"
#include "input/formats/readers/csv_parser.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/tensor_slab.hpp"

namespace lockstep::readers {
namespace {

using detail::concat;
using detail::CsvParser;
using detail::parse_number;
using detail::trimmed;

constexpr std::string_view kWhat = "readers::csv";
constexpr std::string_view kRemedy = "Pass a file whose records are as the options say.";

void check(const CsvOptions& options) {
  detail::check_compression(kWhat, options.compression);
  LOCKSTEP_EXPECTS(!options.columns.empty(), InvalidArgument, kWhat,
                   ": there are no columns. Pass one for each field.");
  LOCKSTEP_EXPECTS(options.delimiter != '"' && options.delimiter != '\n' && options.delimiter != '\r',
                   InvalidArgument, kWhat,
                   ": the delimiter is a quote or an end of a line. Pass another one, as ',' or '\\t'.");
  LOCKSTEP_EXPECTS(options.batch_size >= 0 && options.max_record_bytes >= 0, InvalidArgument, kWhat,
                   ": batch_size ", options.batch_size, ", max_record_bytes ", options.max_record_bytes,
                   ". Pass 0 or more.");
  for (std::size_t i = 0; i < options.columns.size(); ++i) {
    const CsvColumn& column = options.columns[i];
    LOCKSTEP_EXPECTS(
        !column.is_text || options.batch_size == 0, InvalidArgument, kWhat, ": column ", i,
        " is text, whose lengths differ, and cannot be read in batches. Read records, and batch them with "
        "padded_batch.");
    if (column.is_text || !column.default_value) continue;
    LOCKSTEP_EXPECTS(column.default_value->fits(column.dtype), InvalidArgument, kWhat, ": the default value ",
                     *column.default_value, " of column ", i, " is not a valid ", column.dtype,
                     ". Give one that the column can hold, or the column another dtype.");
  }
  const auto& selected = options.select_columns;
  if (selected.empty()) return;
  LOCKSTEP_EXPECTS(selected.size() == options.columns.size(), InvalidArgument, kWhat, ": ",
                   options.columns.size(), " columns, but ", selected.size(),
                   " are selected. Pass a column for each that is selected.");
  LOCKSTEP_EXPECTS(selected[0] >= 0 && std::adjacent_find(selected.begin(), selected.end(),
                                                          std::greater_equal<>()) == selected.end(),
                   InvalidArgument, kWhat,
                   ": selected columns are not ascending from 0 on. Pass each once, in the file's order.");
}

class CsvRecords {
 public:
  CsvRecords(const std::filesystem::path& path, const CsvOptions& options)
      : options_(options), parser_(open_parser(path, options)) {
    for (const CsvColumn& column : options.columns) {
      parse_.push_back(parse_of(column.dtype));
      sizes_.push_back(size_of(column.dtype));
    }
    if (options.header) skip_header();
  }

  std::optional<std::vector<Tensor>> next() { return options_.batch_size > 0 ? next_batch() : next_record(); }
  /// Records at once. What is wrong with the one behind them, the next call reports.
  std::optional<detail::RowBlock> next_rows(std::int64_t most) {
    if (options_.batch_size > 0) return std::nullopt;
    rethrow_fault();
    detail::CsvBlock block(options_.columns, most);
    while (!block.is_full()) {
      const CsvParser::Place begin = parser_.place();
      try {
        if (!parser_.next()) break;
        for (std::size_t i = 0; i < options_.columns.size(); ++i) {
          if (options_.columns[i].is_text)
            block.set_text(i, parser_.field(i));
          else
            parse_[i](*this, i, block.value(i));
        }
        block.end_row();
      } catch (...) {
        if (block.num_rows() == 0) throw;
        fault_ = std::current_exception();
        begin_of_fault_ = begin;
        break;
      }
    }
    return std::move(block).take();
  }
  /// Of the next record. After one that was wrong within a batch, of the batch, and where the parser is.
  Position position() const {
    const CsvParser::Place next = fault_ ? begin_of_fault_ : parser_.place();
    if (num_rows_ == 0) return {next.begin(), next.end()};
    Position position(begin_of_batch_.begin(), begin_of_batch_.end());
    position.push_back(next.front());
    return position;
  }
  void seek(Position position) {
    std::uint64_t end = 0;
    if (position.size() == 4 && options_.batch_size > 0) {
      end = position.back();
      position.pop_back();
    }
    parser_.seek(position);
    if (end > 0) fill_batch(end);
  }

 private:
  void rethrow_fault() {
    if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
  }
  /// If the header is wrong, so is the file.
  void skip_header() {
    try {
      parser_.next();
    } catch (detail::FileFault& fault) {
      fault.is_of_record = false;
      throw;
    }
  }

  static CsvParser open_parser(const std::filesystem::path& path, const CsvOptions& options) {
    const bool selects = !options.select_columns.empty();
    detail::CsvForm form{.delimiter = options.delimiter,
                         .quotes = options.quotes,
                         .num_fields = selects ? 0 : options.columns.size(),
                         .max_record_bytes = static_cast<std::uint64_t>(options.max_record_bytes)};
    form.wanted.resize(options.columns.size());
    std::iota(form.wanted.begin(), form.wanted.end(), std::size_t{0});
    if (selects) form.wanted.assign(options.select_columns.begin(), options.select_columns.end());
    return CsvParser(detail::open_source(path, kWhat, options.compression), std::move(form));
  }

  /// Parses the record's field of a column into memory of its dtype.
  using ParseField = void (*)(const CsvRecords& records, std::size_t column, std::byte* value);

  static ParseField parse_of(DType dtype);

  template <class T>
  static void parse_field(const CsvRecords& records, std::size_t i, std::byte* value) {
    T parsed{};
    if (!records.options_.missing.empty() || !detail::parse_plain(records.parser_.field(i), parsed))
      parsed = records.parse_any<T>(i);
    std::memcpy(value, &parsed, sizeof parsed);
  }
  template <class T>
  [[gnu::noinline]] T parse_any(std::size_t i) const {
    const std::string_view text = trimmed(parser_.field(i));
    T parsed{};
    if (text.empty() || text == options_.missing)
      parsed = default_of(i).as<T>();
    else if (const std::errc error = parse_number(text, parsed); error != std::errc())
      fail(i, text, error);
    return parsed;
  }
  const Scalar& default_of(std::size_t i) const {
    const CsvColumn& column = options_.columns[i];
    if (!column.default_value) parser_.fail(i, "it is empty, and the column has no default value");
    return *column.default_value;
  }
  [[noreturn]] void fail(std::size_t i, std::string_view text, std::errc error) const {
    parser_.fail(i, concat(detail::in_quotes(text),
                           error == std::errc::result_out_of_range ? " does not fit " : " is not a valid ",
                           options_.columns[i].dtype));
  }

  std::optional<std::vector<Tensor>> next_record() {
    rethrow_fault();
    if (!parser_.next()) return std::nullopt;
    std::vector<Tensor> record;
    record.reserve(options_.columns.size());
    for (std::size_t i = 0; i < options_.columns.size(); ++i) {
      const CsvColumn& column = options_.columns[i];
      const std::string_view field = parser_.field(i);
      record.push_back(slab_.take(column.is_text ? Shape(field.size()) : Shape(), column.dtype));
      auto* const value = static_cast<std::byte*>(record.back().data());
      if (!column.is_text)
        parse_[i](*this, i, value);
      else if (!field.empty())
        std::memcpy(value, field.data(), field.size());
    }
    return record;
  }

  /// Fills the batch with the records before `end`, but for those that are wrong.
  void fill_batch(std::uint64_t end) {
    while (num_rows_ < options_.batch_size && parser_.place().front() < end) {
      try {
        if (!add_row()) return;
      } catch (const detail::FileFault& fault) {
        if (!fault.is_of_record) throw;
      }
    }
  }

  std::optional<std::vector<Tensor>> next_batch() {
    while (num_rows_ < options_.batch_size && add_row()) {
    }
    const std::int64_t num_rows = std::exchange(num_rows_, 0);
    if (num_rows == 0) return std::nullopt;
    std::vector<Tensor> batch = std::exchange(batch_, {});
    if (num_rows < options_.batch_size)
      for (Tensor& column : batch) column = column.slice(0, num_rows).clone();
    return batch;
  }

  /// Reads a record into the batch. One that is wrong leaves its row to the next. @return false at the end.
  bool add_row() {
    if (num_rows_ == 0) begin_of_batch_ = parser_.place();
    if (batch_.empty()) {
      values_.clear();
      for (const CsvColumn& column : options_.columns) {
        batch_.push_back(Tensor::empty(Shape(options_.batch_size), column.dtype, detail::input_device()));
        values_.push_back(static_cast<std::byte*>(batch_.back().data()));
      }
    }
    if (!parser_.next()) return false;
    for (std::size_t i = 0; i < values_.size(); ++i)
      parse_[i](*this, i, values_[i] + static_cast<std::size_t>(num_rows_) * sizes_[i]);
    ++num_rows_;
    return true;
  }

  CsvOptions options_;
  CsvParser parser_;
  std::vector<ParseField> parse_;   // for each column
  std::vector<std::size_t> sizes_;  // of a number in each column
  std::vector<Tensor> batch_;       // columns of the batch that is being filled
  std::vector<std::byte*> values_;  // of its columns
  std::int64_t num_rows_ = 0;       // in it
  CsvParser::Place begin_of_batch_{};
  detail::TensorSlab slab_;
  std::exception_ptr fault_;  // of the record behind those that next_rows has given
  CsvParser::Place begin_of_fault_{};
};

CsvRecords::ParseField CsvRecords::parse_of(DType dtype) {
  ParseField parse = nullptr;
  // In a lambda that returns it, clang 14 emits no functions.
  dispatch(dtype, [&]<class T>() -> void { parse = parse_field<T>; });
  return parse;
}

}  // namespace

Reader<std::vector<Tensor>> csv(CsvOptions options) {
  check(options);
  return [options = std::move(options)](const std::filesystem::path& path) -> Elements<std::vector<Tensor>> {
    return detail::FileElements(kWhat, path, kRemedy,
                                [&] { return std::make_shared<CsvRecords>(path, options); });
  };
}

}  // namespace lockstep::readers
