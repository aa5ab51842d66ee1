#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/input/detail/positioned.hpp>

#include "input/formats/block_reader.hpp"
#include "input/formats/readers/byte_index.hpp"

namespace lockstep::detail {

/// What CsvParser is told about a file.
struct CsvForm {
  char delimiter = ',';
  bool quotes = true;
  std::vector<std::size_t> wanted{};  ///< Numbers of the fields to keep, ascending; others are skipped.
  std::size_t num_fields = 0;         ///< Of each record; 0: that of the first one.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 28;
};

/// Parses records of comma-separated values, RFC 4180, where they lie in a block. After a fault of a record
/// it goes on behind the next end of a line.
class CsvParser {
 public:
  CsvParser(std::unique_ptr<ByteSource> source, CsvForm form);

  /// Reads a record. @return false at the end. @throws FileFault
  bool next();

  /// Where a record begins: its byte and line, and the number of a record's fields; 0: not known yet.
  using Place = std::array<std::uint64_t, 3>;
  /// Of the next record.
  Place place() const { return {block_.position(), line_, form_.num_fields}; }
  /// Goes on at a record after this one. @throws FileFault
  void seek(const readers::Position& position);

  /// The text of field wanted[i] of the record, until the next one is read.
  std::string_view field(std::size_t i) const { return fields_[i].text; }
  /// Reports that the field is wrong. @throws FileFault  of the record.
  [[noreturn]] void fail(std::size_t i, const std::string& reason) const;

 private:
  struct Field {
    std::string_view text;
    std::uint64_t position = 0;
    std::uint64_t line = 0;
    std::string unquoted{};  // the text, if it has doubled quotes
  };

  /// Takes ends of lines. @return false at the end of the file.
  bool skip_empty_lines();
  /// Parses the record at the beginning of the block and takes it. @return false if it may go on behind the
  /// block's end, and nothing is taken.
  bool parse();
  /// Finds the end of the field at `begin`. @return false as parse.
  bool find_end(std::size_t begin, std::size_t& end);
  bool find_quoted_end(std::size_t begin, std::size_t& end);
  /// The length of the line end at a place: 1, 2, or 0 for none. @pre a byte follows, or is_last_.
  std::size_t line_end_at(std::size_t at) const;
  /// Of a field that is in quotes.
  static void remove_quotes(Field& field);
  bool fill();
  std::string too_long() const;
  /// Reports a fault of the record at `at`, and takes what comes before the next line.
  [[noreturn]] void fail_at(std::size_t at, std::uint64_t line, const std::string& reason);

  BlockReader block_;
  CsvForm form_;
  ByteIndex ends_;  // of fields and lines, and quotes
  std::vector<Field> fields_;
  std::string_view data_;   // block_.rest() of the record that is being parsed
  std::size_t index_ = 0;   // of the field that is being parsed
  bool is_last_ = false;    // whether the file ends with the block
  std::uint64_t line_ = 1;  // line of the place that is being parsed
};

}  // namespace lockstep::detail
