#include "input/formats/readers/csv_parser.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/npy_file.hpp"

using namespace lockstep;
using detail::CsvParser;
using detail::FileFault;
using test::TemporaryFile;

namespace csv_parser_test {
using Records = std::vector<std::vector<std::string>>;

/// A record of one field says why there are no more.
Records parse(const std::string& text, std::vector<std::size_t> wanted = {0, 1}, std::size_t num_fields = 2,
              char delimiter = ',', bool quotes = true) {
  const TemporaryFile file(text);
  CsvParser parser(
      std::make_unique<detail::FileSource>(std::make_shared<const detail::InputFile>(file.path(), "test")),
      {.delimiter = delimiter, .quotes = quotes, .wanted = wanted, .num_fields = num_fields});
  Records records;
  try {
    while (parser.next()) {
      auto& record = records.emplace_back();
      for (std::size_t i = 0; i < wanted.size(); ++i) record.emplace_back(parser.field(i));
    }
  } catch (const FileFault& fault) {
    records.push_back({std::to_string(fault.position) + ": " + fault.reason});
  }
  return records;
}
}  // namespace csv_parser_test

using csv_parser_test::parse;
using csv_parser_test::Records;

TEST_CASE("records end with a newline, a carriage return before it, or the file", "[input][csv][host]") {
  const auto text = GENERATE(as<std::string>(), "a,b\nc,d\n", "a,b\r\nc,d", "a,b\n\n\r\nc,d\r\n\n",
                             "\xef\xbb\xbf"
                             "a,b\nc,d");
  CHECK(parse(text) == Records{{"a", "b"}, {"c", "d"}});
  CHECK(parse("").empty());
  CHECK(parse("\n\r\n").empty());
  CHECK(parse("a,\n,b") == Records{{"a", ""}, {"", "b"}});
  CHECK(parse("a\rb,c\r") == Records{{"a\rb", "c\r"}});
}

TEST_CASE("quoted fields have delimiters, ends of lines, and doubled quotes", "[input][csv][host]") {
  CHECK(parse("\"a,\n\"\"b\"\"\",\"\"\r\nc,\"d\"") == Records{{"a,\n\"b\"", ""}, {"c", "d"}});
  CHECK(parse("\"a\";b\"", {0, 1}, 2, ';', false) == Records{{"\"a\"", "b\""}});
  CHECK(parse("a\tb\n", {0, 1}, 2, '\t') == Records{{"a", "b"}});
}

TEST_CASE("fields that are not wanted are passed over", "[input][csv][host]") {
  CHECK(parse("a,\"b,b\",c,d\ne,f,g,h", {1, 3}, 0) == Records{{"b,b", "d"}, {"f", "h"}});
  CHECK(parse("a\nb", {0}, 0) == Records{{"a"}, {"b"}});
}

TEST_CASE("fields longer than every buffer are whole", "[input][csv][host]") {
  const std::string a(5000, 'a'), b(200'000, 'b');
  CHECK(parse(a + "," + b + "\r\n" + b + ",\"" + a + "\"\r\n") == Records{{a, b}, {b, a}});
  // The carriage return is the last byte of a buffer.
  CHECK(parse(std::string(4093, 'a') + ",b\r\nc,d") == Records{{std::string(4093, 'a'), "b"}, {"c", "d"}});
}

TEST_CASE("records of another length are refused where they end", "[input][csv][host]") {
  CHECK(parse("a,b\nc\n") ==
        Records{{"a", "b"}, {"4: line 2, field 1: the record ends, but it should have 2 fields"}});
  CHECK(parse("a,b,c") == Records{{"4: line 1, field 3: a record of more than 2 fields"}});
  CHECK(parse("a,b,c\nd,e", {0}, 0) ==
        Records{{"a"}, {"6: line 2, field 2: the record ends, but it should have 3 fields"}});
  CHECK(parse("a,b\nd,e,f", {0}, 0) ==
        Records{{"a"}, {"8: line 2, field 3: a record of more than 2 fields"}});
  CHECK(parse("a,b", {0, 5}, 0) ==
        Records{{"0: line 1, field 2: the record ends, but it should have more than 5 fields"}});
}

TEST_CASE("quotes where there should be none are refused", "[input][csv][host]") {
  CHECK(parse("x,y\na,\"b\nc") ==
        Records{{"x", "y"}, {"6: line 2, field 2: a quoted field without its end"}});
  CHECK(parse("a\"b\",c") ==
        Records{{"1: line 1, field 1: a quote within a field that does not begin with one"}});
  CHECK(parse("\"a\" ,c") == Records{{"3: line 1, field 1: more text after a quoted field"}});
  CHECK(parse("\"a\nb\nc\"\n\nx", {0, 1}) ==
        Records{{"0: line 1, field 1: the record ends, but it should have 2 fields"}});
}

TEST_CASE("after a bad record parsing goes on behind the next end of a line", "[input][csv][host]") {
  const std::string large(300'000, 'x');
  const TemporaryFile file("a,b\nc\nd,e,f\ng,h\ni\"j,k\nl,m\n\"n\"o,p\nq,r\n" + large + "," + large +
                           "\ns,t\n");
  CsvParser parser(
      std::make_unique<detail::FileSource>(std::make_shared<const detail::InputFile>(file.path(), "test")),
      {.wanted = {0, 1}, .num_fields = 2, .max_record_bytes = 200'000});
  Records records;
  for (;;) {
    try {
      if (!parser.next()) break;
      records.push_back({std::string(parser.field(0)), std::string(parser.field(1))});
    } catch (const FileFault& fault) {
      CHECK(fault.is_of_record);
      records.push_back({std::to_string(fault.position) + ": " + fault.reason});
    }
  }
  CHECK(records == Records{{"a", "b"},
                           {"4: line 2, field 1: the record ends, but it should have 2 fields"},
                           {"10: line 3, field 3: a record of more than 2 fields"},
                           {"g", "h"},
                           {"17: line 5, field 1: a quote within a field that does not begin with one"},
                           {"l", "m"},
                           {"29: line 7, field 1: more text after a quoted field"},
                           {"q", "r"},
                           {"37: line 9, field 1: the record is longer than max_record_bytes, 200000"},
                           {"s", "t"}});
}

TEST_CASE("a record beyond the limit is refused also if it lies in one block", "[input][csv][host]") {
  const TemporaryFile file("abcde,f\ng,h\n");
  CsvParser parser(
      std::make_unique<detail::FileSource>(std::make_shared<const detail::InputFile>(file.path(), "test")),
      {.wanted = {0, 1}, .num_fields = 2, .max_record_bytes = 6});
  CHECK_THROWS_AS(parser.next(), FileFault);
  CHECK(parser.next());
  CHECK(parser.field(0) == "g");
}
