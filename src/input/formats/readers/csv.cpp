#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "input/formats/compressed/compressed_file.hpp"
#include "input/formats/readers/csv_parser.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::readers {
namespace {

using detail::concat;
using detail::CsvParser;

constexpr std::string_view kWhat = "readers::csv";
constexpr std::string_view kRemedy = "Pass a file whose records are as the options say.";

void check(const CsvOptions& options) {
  detail::check_compression(kWhat, options.compression);
  LOCKSTEP_EXPECTS(!options.columns.empty(), InvalidArgument, kWhat,
                   ": there are no columns. Pass one for each field.");
  LOCKSTEP_EXPECTS(options.delimiter != '"' && options.delimiter != '\n' && options.delimiter != '\r',
                   InvalidArgument, kWhat,
                   ": the delimiter is a quote or an end of a line. Pass another one, as ',' or '\\t'.");
  for (std::size_t i = 0; i < options.columns.size(); ++i) {
    const CsvColumn& column = options.columns[i];
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

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

template <class T>
std::errc parse_whole(std::string_view text, T& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return end != text.data() + text.size() ? std::errc::invalid_argument : error;
}

/// Whether a number is out of range because it is too close to 0. @pre std::from_chars reports it out of
/// range, so that the place of its first digit decides.
bool is_tiny(std::string_view text) {
  const std::size_t end = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, end);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const auto place =
      static_cast<std::int64_t>(point) - static_cast<std::int64_t>(digits.find_first_of("123456789"));
  std::string_view exponent = text.substr(std::min(end + 1, text.size()));
  std::int64_t value = 0;
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  if (std::from_chars(exponent.data(), exponent.data() + exponent.size(), value).ec ==
      std::errc::result_out_of_range)
    return exponent.starts_with('-');
  return value < -place;
}

/// Parses a number of a type that std::from_chars supports.
template <class T>
std::errc parse_number(std::string_view text, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    const bool is_true = text == "1" || text == "true";
    value = is_true;
    return is_true || text == "0" || text == "false" ? std::errc() : std::errc::invalid_argument;
  } else if constexpr (std::is_integral_v<T>) {
    return parse_whole(text, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    const std::errc error = parse_whole(text, value);
    if (error != std::errc::result_out_of_range || !is_tiny(text)) return error;
    value = text.starts_with('-') ? -T(0) : T(0);
    return std::errc();
  } else {
    float wide = 0;
    const std::errc error = parse_number(text, wide);
    value = T(wide);
    const bool fits = std::isfinite(static_cast<float>(value)) || !std::isfinite(wide);
    return error != std::errc() || fits ? error : std::errc::result_out_of_range;
  }
}

class CsvRecords {
 public:
  CsvRecords(const std::filesystem::path& path, const CsvOptions& options)
      : options_(options), parser_(open_parser(path, options)) {
    if (options.header) parser_.next();
  }

  std::optional<std::vector<Tensor>> next() {
    if (!parser_.next()) return std::nullopt;
    std::vector<Tensor> record;
    record.reserve(options_.columns.size());
    for (std::size_t i = 0; i < options_.columns.size(); ++i) record.push_back(read_column(i));
    return record;
  }

 private:
  static CsvParser open_parser(const std::filesystem::path& path, const CsvOptions& options) {
    const bool selects = !options.select_columns.empty();
    std::vector<std::size_t> wanted(options.columns.size());
    std::iota(wanted.begin(), wanted.end(), std::size_t{0});
    if (selects) wanted.assign(options.select_columns.begin(), options.select_columns.end());
    return CsvParser(detail::open_source(path, kWhat, options.compression), options.delimiter, options.quotes,
                     std::move(wanted), selects ? 0 : options.columns.size());
  }

  Tensor read_column(std::size_t i) {
    const CsvColumn& column = options_.columns[i];
    const std::string& field = parser_.field(i);
    const Device& device = detail::input_device();
    if (column.is_text) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(field.data());
      return Tensor::from(std::span(bytes, field.size()), Shape(field.size()), device);
    }
    const std::string_view text = trimmed(field);
    return dispatch(column.dtype, [&]<class T>() {
      T value{};
      if (text.empty() || text == options_.missing) {
        if (!column.default_value) parser_.fail(i, "it is empty, and the column has no default value");
        value = column.default_value->as<T>();
      } else if (const std::errc error = parse_number(text, value); error != std::errc()) {
        const bool is_too_large = error == std::errc::result_out_of_range;
        parser_.fail(i, concat(detail::in_quotes(text), is_too_large ? " does not fit " : " is not a valid ",
                               column.dtype));
      }
      return Tensor::from(std::span<const T>(&value, 1), Shape(), device);  // cheaper than a fill
    });
  }

  CsvOptions options_;
  CsvParser parser_;
};

}  // namespace

Reader<std::vector<Tensor>> csv(CsvOptions options) {
  check(options);
  return [options = std::move(options)](const std::filesystem::path& path) -> Elements<std::vector<Tensor>> {
    auto records = detail::with_file_faults(kWhat, path, kRemedy,
                                            [&] { return std::make_shared<CsvRecords>(path, options); });
    return [records, path] {
      return detail::with_file_faults(kWhat, path, kRemedy, [&] { return records->next(); });
    };
  };
}

}  // namespace lockstep::readers
