#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/input/detail/positioned.hpp>

#include "input/formats/byte_source.hpp"

namespace lockstep::detail {

/// Parses records of comma-separated values, RFC 4180.
class CsvParser {
 public:
  /// @param wanted  the numbers of the fields to keep, ascending; others are skipped.
  /// @param num_fields  the number of fields of each record; 0: that of the first record.
  CsvParser(std::unique_ptr<ByteSource> source, char delimiter, bool quotes, std::vector<std::size_t> wanted,
            std::size_t num_fields);

  /// Reads a record. @return false at the end. @throws FileFault
  bool next();

  /// The byte and the line of the next record, and the number of a record's fields; 0: not known yet.
  readers::Position position_of_record() const { return {position(), line_, num_fields_}; }
  /// Goes on at a record after this one. @throws FileFault
  void seek(const readers::Position& position);

  /// The text of field wanted[i] of the record, until the next one is read.
  const std::string& field(std::size_t i) const { return fields_[i].text; }
  /// Reports that the field is wrong. @throws FileFault
  [[noreturn]] void fail(std::size_t i, const std::string& reason) const;

 private:
  struct Field {
    std::string text;
    std::uint64_t position = 0;
    std::uint64_t line = 0;
  };

  static constexpr int kEnd = -1;

  int peek(std::size_t ahead = 0);
  int take();
  /// The length of the line end that comes next; 0: no line end does.
  std::size_t peek_line_end();
  /// Takes bytes from the buffer. @param text  null: they are skipped.
  void take_bytes(std::size_t size, std::string* text);
  /// The bytes of the buffer that have not been taken.
  std::string_view rest() const { return std::string_view(buffer_).substr(next_); }
  std::uint64_t position() const { return source_->position() - (buffer_.size() - next_); }
  /// @param text  null: the field is skipped.
  void read_field(std::size_t index, std::string* text);
  void read_quoted(std::size_t index, std::string* text);
  [[noreturn]] void fail_at(std::uint64_t position, std::uint64_t line, std::size_t index,
                            const std::string& reason) const;

  std::unique_ptr<ByteSource> source_;
  char delimiter_;
  bool quotes_;
  std::vector<std::size_t> wanted_;
  std::size_t num_fields_;
  std::vector<Field> fields_;
  std::string buffer_;
  std::size_t next_ = 0;    // index in buffer_
  std::uint64_t line_ = 1;  // line of the next byte
};

}  // namespace lockstep::detail
