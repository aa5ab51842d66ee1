#include "input/formats/readers/csv_parser.hpp"

#include <algorithm>

#include "detail/concat.hpp"
#include "input/formats/readers/file_elements.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kBufferBytes = 1 << 12;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

CsvParser::CsvParser(std::unique_ptr<ByteSource> source, char delimiter, bool quotes,
                     std::vector<std::size_t> wanted, std::size_t num_fields)
    : source_(std::move(source)),
      delimiter_(delimiter),
      quotes_(quotes),
      wanted_(std::move(wanted)),
      num_fields_(num_fields),
      fields_(wanted_.size()) {
  peek();
  if (buffer_.starts_with(kByteOrderMark)) next_ = kByteOrderMark.size();
}

int CsvParser::peek(std::size_t ahead) {
  if (next_ + ahead >= buffer_.size()) {
    buffer_.erase(0, next_);
    next_ = 0;
    const std::size_t kept = buffer_.size();
    buffer_.resize(kept + kBufferBytes);
    buffer_.resize(kept + source_->read_some(buffer_.data() + kept, kBufferBytes));
    if (ahead >= buffer_.size()) return kEnd;
  }
  return static_cast<unsigned char>(buffer_[next_ + ahead]);
}

int CsvParser::take() {
  const int c = peek();
  if (c == kEnd) return c;
  ++next_;
  if (c == '\n') ++line_;
  return c;
}

std::size_t CsvParser::peek_line_end() {
  const int c = peek();
  if (c == '\n') return 1;
  return c == '\r' && peek(1) == '\n' ? 2 : 0;
}

void CsvParser::take_bytes(std::size_t size, std::string* text) {
  const std::string_view bytes = rest().substr(0, size);
  line_ += static_cast<std::uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  if (text) append_within(*text, bytes, source_->position() + source_->max_left());
  next_ += size;
}

bool CsvParser::next() {
  while (const std::size_t size = peek_line_end())
    for (std::size_t i = 0; i < size; ++i) take();
  if (peek() == kEnd) return false;

  const std::uint64_t begin = position(), line = line_;
  std::size_t index = 0, num_kept = 0;
  for (bool ends = false; !ends; ++index) {
    if (num_fields_ > 0 && index == num_fields_)
      fail_at(position(), line_, index, concat("a record of more than ", num_fields_, " fields"));
    Field* const field =
        num_kept < wanted_.size() && wanted_[num_kept] == index ? &fields_[num_kept++] : nullptr;
    if (field) {
      field->text.clear();
      field->position = position();
      field->line = line_;
    }
    read_field(index, field ? &field->text : nullptr);
    ends = peek() != static_cast<unsigned char>(delimiter_);
    if (!ends) take();
  }
  for (std::size_t i = peek_line_end(); i > 0; --i) take();
  if (index < num_fields_ || num_kept < wanted_.size())
    fail_at(begin, line, index - 1,
            concat("the record ends, but it should have ",
                   num_fields_ > 0 ? concat(num_fields_) : concat("more than ", wanted_.back()), " fields"));
  num_fields_ = index;
  return true;
}

void CsvParser::seek(const readers::Position& to) {
  if (to.size() != 3 || to[0] < position() || (num_fields_ > 0 && to[2] != num_fields_))
    fail_position(position());
  const std::uint64_t distance = to[0] - position();
  const auto kept = static_cast<std::size_t>(std::min<std::uint64_t>(distance, rest().size()));
  next_ += kept;
  source_->skip(distance - kept);
  line_ = to[1];
  num_fields_ = static_cast<std::size_t>(to[2]);
}

void CsvParser::read_field(std::size_t index, std::string* text) {
  if (quotes_ && peek() == '"') return read_quoted(index, text);
  const auto may_end = [this](char c) { return c == delimiter_ || c == '\n' || c == '\r' || c == '"'; };
  for (int c = peek(); c != kEnd; c = peek()) {
    if (c == static_cast<unsigned char>(delimiter_) || peek_line_end() > 0) return;
    if (quotes_ && c == '"')
      fail_at(position(), line_, index, "a quote within a field that does not begin with one");
    const std::string_view bytes = rest();  // its first byte belongs to the field
    const auto end = std::find_if(bytes.begin() + 1, bytes.end(), may_end);
    take_bytes(static_cast<std::size_t>(end - bytes.begin()), text);
  }
}

void CsvParser::read_quoted(std::size_t index, std::string* text) {
  const std::uint64_t begin = position(), line = line_;
  take();
  for (;;) {
    if (peek() == kEnd) fail_at(begin, line, index, "a quoted field without its end");
    take_bytes(std::min(rest().find('"'), rest().size()), text);
    if (rest().empty()) continue;
    take();
    if (peek() != '"') break;
    take_bytes(1, text);
  }
  const int c = peek();
  if (c != kEnd && c != static_cast<unsigned char>(delimiter_) && peek_line_end() == 0)
    fail_at(position(), line_, index, "more text after a quoted field");
}

void CsvParser::fail(std::size_t i, const std::string& reason) const {
  fail_at(fields_[i].position, fields_[i].line, wanted_[i], reason);
}

void CsvParser::fail_at(std::uint64_t position, std::uint64_t line, std::size_t index,
                        const std::string& reason) const {
  source_->fail(position, concat("line ", line, ", field ", index + 1, ": ", reason));
}

}  // namespace lockstep::detail
