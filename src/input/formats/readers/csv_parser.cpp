#include "input/formats/readers/csv_parser.hpp"

#include <algorithm>
#include <utility>

#include "detail/concat.hpp"
#include "input/formats/readers/file_elements.hpp"

namespace lockstep::detail {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The end of the field that begins at `begin`, at the delimiter or the end of a line that was found.
std::size_t end_at(std::string_view text, std::size_t found, std::size_t begin) {
  return text[found] == '\n' && found > begin && text[found - 1] == '\r' ? found - 1 : found;
}

}  // namespace

CsvParser::CsvParser(std::unique_ptr<ByteSource> source, CsvForm form)
    : block_(std::move(source)),
      form_(std::move(form)),
      ends_({form_.delimiter, '\n', form_.quotes ? '"' : '\n'}),
      fields_(form_.wanted.size()) {
  fill();
  if (block_.rest().starts_with(kByteOrderMark)) block_.take(kByteOrderMark.size());
}

bool CsvParser::fill() {
  ends_.reset();
  is_last_ = !block_.fill();
  return !is_last_;
}

bool CsvParser::skip_empty_lines() {
  for (;;) {
    const std::string_view rest = block_.rest();
    const bool is_known = rest.size() > 1 || rest == "\n" || is_last_;
    if (!is_known) {
      fill();
      continue;
    }
    if (rest.empty()) return false;
    const std::size_t size = rest[0] == '\n' ? 1 : rest.starts_with("\r\n") ? 2 : 0;
    if (size == 0) return true;
    block_.take(size);
    ++line_;
  }
}

bool CsvParser::next() {
  if (!skip_empty_lines()) return false;
  const std::uint64_t line = line_;
  while (!parse()) {
    line_ = line;
    if (block_.rest().size() > form_.max_record_bytes) {
      data_ = block_.rest();
      index_ = 0;
      fail_at(0, line, too_long());
    }
    fill();
  }
  return true;
}

std::size_t CsvParser::line_end_at(std::size_t at) const {
  if (at < data_.size() && data_[at] == '\n') return 1;
  return data_.substr(at, 2) == "\r\n" ? 2 : 0;
}

bool CsvParser::parse() {
  const std::string_view data = data_ = block_.rest();  // here and below locals, which stores cannot change
  const std::uint64_t first_line = line_, position = block_.position();
  const char* const first = data.data();
  const char* const last = first + data.size();
  const char delimiter = form_.delimiter;
  const bool quotes = form_.quotes;
  const std::size_t most_fields = form_.num_fields, num_wanted = form_.wanted.size();
  const std::size_t* const wanted = form_.wanted.data();
  std::size_t begin = 0, end = 0, num_kept = 0;
  for (index_ = 0;; ++index_) {
    if (begin == data.size() && !is_last_) return false;
    if (most_fields > 0 && index_ == most_fields)
      fail_at(begin, line_, concat("a record of more than ", most_fields, " fields"));
    Field* const field = num_kept < num_wanted && wanted[num_kept] == index_ ? &fields_[num_kept++] : nullptr;
    if (field) {
      field->position = position + begin;
      field->line = line_;
    }
    const bool is_quoted = quotes && begin < data.size() && first[begin] == '"';
    const char* const found = is_quoted ? last : ends_.find(first + begin, last);
    if (found != last && *found != '"')  // as most fields end
      end = end_at(data, static_cast<std::size_t>(found - first), begin);
    else if (!find_end(begin, end))
      return false;
    if (field) {
      field->text = {first + begin, end - begin};
      if (is_quoted) remove_quotes(*field);
    }
    if (end == data.size() || first[end] != delimiter) break;
    begin = end + 1;
  }
  const std::size_t num_fields = index_ + 1;
  const std::size_t line_end = line_end_at(end);
  block_.take(end + line_end);
  if (line_end > 0) ++line_;
  const auto fail_here = [&](std::size_t number, const std::string& reason) {
    block_.source().fail_record(position, concat("line ", first_line, ", field ", number, ": ", reason));
  };
  if (num_fields < form_.num_fields || num_kept < form_.wanted.size())
    fail_here(num_fields, concat("the record ends, but it should have ",
                                 form_.num_fields > 0 ? concat(form_.num_fields)
                                                      : concat("more than ", form_.wanted.back()),
                                 " fields"));
  form_.num_fields = num_fields;
  if (end > form_.max_record_bytes) fail_here(1, too_long());
  return true;
}

void CsvParser::seek(const readers::Position& to) {
  if (to.size() != 3 || to[0] < block_.position() || (form_.num_fields > 0 && to[2] != form_.num_fields))
    fail_position(block_.position());
  ends_.reset();
  block_.skip(to[0] - block_.position());
  line_ = to[1];
  form_.num_fields = static_cast<std::size_t>(to[2]);
}

std::string CsvParser::too_long() const {
  return concat("the record is longer than max_record_bytes, ", form_.max_record_bytes);
}

bool CsvParser::find_end(std::size_t begin, std::size_t& end) {
  if (form_.quotes && begin < data_.size() && data_[begin] == '"') return find_quoted_end(begin, end);
  end =
      static_cast<std::size_t>(ends_.find(data_.data() + begin, data_.data() + data_.size()) - data_.data());
  if (end == data_.size()) return is_last_;
  if (form_.quotes && data_[end] == '"')
    fail_at(end, line_, "a quote within a field that does not begin with one");
  end = end_at(data_, end, begin);
  return true;
}

bool CsvParser::find_quoted_end(std::size_t begin, std::size_t& end) {
  const std::uint64_t line = line_;
  for (std::size_t quote = begin;; quote = end) {
    quote = data_.find('"', quote + 1);
    if (quote == std::string_view::npos && is_last_) {
      const std::uint64_t position = block_.position() + begin;
      block_.take(data_.size());
      block_.source().fail(position,
                           concat("line ", line, ", field ", index_ + 1, ": a quoted field without its end"));
    }
    if (!is_last_ && (quote == std::string_view::npos || quote + 1 == data_.size())) return false;
    end = quote + 1;
    if (end == data_.size() || data_[end] != '"') break;  // else it stands for a quote
  }
  if (end < data_.size() && data_[end] == '\r' && end + 1 == data_.size() && !is_last_) return false;
  line_ += static_cast<std::uint64_t>(std::count(data_.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 data_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  if (end < data_.size() && data_[end] != form_.delimiter && line_end_at(end) == 0)
    fail_at(end, line_, "more text after a quoted field");
  return true;
}

void CsvParser::remove_quotes(Field& field) {
  field.text = field.text.substr(1, field.text.size() - 2);
  std::size_t quote = field.text.find('"');
  if (quote == std::string_view::npos) return;
  field.unquoted.clear();
  std::string_view rest = field.text;
  for (; quote != std::string_view::npos; quote = rest.find('"')) {
    append_within(field.unquoted, rest.substr(0, quote + 1), field.text.size());
    rest.remove_prefix(quote + 2);
  }
  append_within(field.unquoted, rest, field.text.size());
  field.text = field.unquoted;
}

void CsvParser::fail(std::size_t i, const std::string& reason) const {
  block_.source().fail_record(
      fields_[i].position, concat("line ", fields_[i].line, ", field ", form_.wanted[i] + 1, ": ", reason));
}

void CsvParser::fail_at(std::size_t at, std::uint64_t line, const std::string& reason) {
  const std::uint64_t position = block_.position() + at;
  const std::string message = concat("line ", line, ", field ", index_ + 1, ": ", reason);
  std::size_t end = data_.find('\n', at);
  block_.take(std::min(end, data_.size()));
  while (block_.rest().empty() && fill()) {
    end = block_.rest().find('\n');
    block_.take(std::min(end, block_.rest().size()));
  }
  if (!block_.rest().empty()) {
    block_.take(1);
    ++line_;
  }
  block_.source().fail_record(position, message);
}

}  // namespace lockstep::detail
