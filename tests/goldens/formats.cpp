// Files: records, compressed ones, CSV, images, raw bytes, lists of files. TensorFlow made the files.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <lockstep/input/decode.hpp>
#include <lockstep/input/files.hpp>
#include <lockstep/input/readers.hpp>

#include "goldens/datasets.hpp"
#include "support/npy_file.hpp"

namespace lockstep::test {

namespace {

using readers::Compression;
using readers::CsvColumn;
using readers::CsvOptions;

const std::vector<std::pair<std::string, Compression>> kForms{
    {"", Compression::none}, {"GZIP", Compression::gzip}, {"ZLIB", Compression::zlib}};

std::string hex_of(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}
std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// The bytes of a file that TensorFlow has made.
std::string file(Golden& r, const std::string& name) {
  return bytes_of_hex(r.given("file " + name).at("host").get<std::string>());
}
Tensor tensor_of(const std::string& bytes) {
  return Tensor::from(std::vector<std::uint8_t>(bytes.begin(), bytes.end()), Shape(bytes.size()));
}

/// The elements before the first error, and then "error".
Json texts_left(const std::vector<std::filesystem::path>& paths, const readers::Reader<Tensor>& reader) {
  Json all = Json::array();
  try {
    for (const Tensor& element : Dataset::from_files(paths, reader))
      all.push_back(hex_of(readers::text(element)));
  } catch (const Error&) {
    all.push_back("error");
  }
  return rows(std::move(all));
}
Json texts(const std::vector<std::filesystem::path>& paths, const readers::Reader<Tensor>& reader) {
  Json all = Json::array();
  for (const Tensor& element : Dataset::from_files(paths, reader))
    all.push_back(hex_of(readers::text(element)));
  return rows(std::move(all));
}
Json texts_of(const std::string& bytes, const readers::Reader<Tensor>& reader) {
  const TemporaryFile written(bytes);
  return texts({written.path()}, reader);
}

Json csv_rows(const std::string& data, CsvOptions options) {
  const TemporaryFile written(data);
  std::vector<bool> is_text;
  for (const CsvColumn& column : options.columns) is_text.push_back(column.is_text);
  Json all = Json::array();
  for (const auto& record : Dataset::from_files({written.path()}, readers::csv(std::move(options)))) {
    Json row = Json::array();
    for (std::size_t i = 0; i < record.size(); ++i)
      row.push_back(is_text[i] ? Json(readers::text(record[i])) : value_of(record[i]));
    all.push_back(std::move(row));
  }
  return rows(std::move(all));
}

/// TensorFlow's image if this one's values differ from it by no more than 1.
Json nearly(const Tensor& image, const Json& golden) {
  Json own = encode(image);
  if (!golden.contains("value") || own.at("shape") != golden.at("shape")) return own;
  const Json a = own.at("value").flatten(), b = golden.at("value").flatten();
  for (const auto& [place, value] : a.items())
    if (std::abs(value.get<int>() - b.at(place).get<int>()) > 1) return own;
  return golden;
}

}  // namespace

GOLDEN("format-tf-record") {
#ifndef LOCKSTEP_HAS_ISAL
  SKIP("lockstep was built without ISA-L");
#else
  for (const auto& [form, compression] : kForms)
    for (const std::string name : {"none", "one", "three", "zeros"}) {
      const std::string data = file(r, name + " " + form);
      r("records " + name + " " + form,
        [&] { return texts_of(data, readers::tf_record({.compression = compression})); });
    }
  const auto reader = readers::tf_record(),
             gzip_reader = readers::tf_record({.compression = Compression::gzip});
  const std::string one = file(r, "one ");
  const std::string three = file(r, "three ");
  const TemporaryFile one_file(one), three_file(three);
  r("two files", [&] { return texts({three_file.path(), one_file.path()}, reader); });
  r("two files in one", [&] { return texts_of(three + one, reader); });
  const std::string members = file(r, "of two gzip files");
  r("two gzip files in one", [&] { return texts_of(members, gzip_reader); });
  const std::vector<std::pair<std::size_t, std::string>> places{
      {0, "length"}, {8, "length's checksum"}, {12, "data"}, {15, "data's checksum"}};
  for (const auto& [place, name] : places) {
    std::string data = three;
    data[place] = static_cast<char>(data[place] ^ 1);
    const TemporaryFile damaged(data);
    r("damaged " + name, [&] { return texts_left({damaged.path()}, reader); });
  }
  for (const std::size_t size : {1, 11, 12, 14, 16, 18}) {
    const TemporaryFile cut(three.substr(0, size));
    r("cut to " + std::to_string(size), [&] { return texts_left({cut.path()}, reader); });
  }
  r("no such file", [&] { return texts({"/no/such/file"}, reader); });
  r("another compression", [&] { return texts_of(three, gzip_reader); });
#endif
}

GOLDEN("format-lines") {
  for (const std::string name : {"empty", "one", "ended", "three", "crlf", "cr"})
    for (const auto& [form, compression] : kForms) {
      const std::string data = file(r, name + " " + form);
      r(name + " " + form, [&] { return texts_of(data, readers::lines({.compression = compression})); });
    }
}

GOLDEN("format-records") {
  struct Lengths {
    std::int64_t record, header, footer;
  };
  for (const auto& [form, compression] : kForms) {
    const std::string data = file(r, form);
    for (const auto& [record, header, footer] : std::vector<Lengths>{
             {2, 4, 2}, {3, 4, 2}, {1, 0, 0}, {4, 0, 0}, {12, 0, 0}, {5, 4, 3}, {5, 0, 0}, {6, 4, 2}}) {
      const readers::RecordOptions options{
          .record_bytes = record, .header_bytes = header, .footer_bytes = footer, .compression = compression};
      r(std::to_string(record) + " " + std::to_string(header) + " " + std::to_string(footer) + " " + form,
        [&] { return texts_of(data, readers::records(options)); });
    }
  }
}

GOLDEN("format-csv") {
  const CsvColumn i = DType::i32, f = DType::f32, s = CsvColumn::text();
  const auto with = [](double value, DType dtype) { return CsvColumn(dtype, Scalar(value)); };
  const auto check = [&](const std::string& name, const std::string& data, const CsvOptions& options) {
    r(name, [&] { return csv_rows(data, options); });
  };
  check("plain", "1,2.5,x\n-3,1e2,y z\n", {.columns = {i, f, s}});
  check("no last newline", "1,2\n3,4", {.columns = {i, i}});
  check("crlf", "1,2\r\n3,4\r\n", {.columns = {i, i}});
  check("header", "a,b\n3,4\n", {.columns = {i, i}, .header = true});
  check("only a header", "a,b\n", {.columns = {i, i}, .header = true});
  check("tabs", "1\t2\n", {.columns = {i, i}, .delimiter = '\t'});
  check("quotes", "\"1\",\"a,b\"\n2,\"c \"\"d\"\" e\"\n", {.columns = {i, s}});
  check("a newline in quotes", "\"a\nb\",1\n", {.columns = {s, i}});
  check("no quotes", "\"a\",1\n", {.columns = {s, i}, .quotes = false});
  check("defaults", ",\n5,\n", {.columns = {with(7, DType::i32), with(0.5, DType::f32)}});
  check("a default beside numbers", "1,2\n3,\n", {.columns = {i, with(9, DType::i32)}});
  check("an empty text", "1,\n", {.columns = {i, s}});
  check("na_value", "NA,2\n3,NA\n", {.columns = {with(7, DType::i32), with(8, DType::i32)}, .missing = "NA"});
  check("selected", "1,2,3\n4,5,6\n", {.columns = {i, i}, .select_columns = {0, 2}});
  check("selected last", "1,2,x\n", {.columns = {s}, .select_columns = {2}});
  check("one column", "1\n2\n", {.columns = {i}});
  check("numbers", "1e-3,0.1\n-1.5e10,.5\n", {.columns = {DType::f64, f}});
  check("largest", "2147483647,-9223372036854775808\n", {.columns = {i, DType::i64}});
  check("too few fields", "1\n", {.columns = {i, i}});
  check("too many fields", "1,2,3\n", {.columns = {i, i}});
  check("no number", "x\n", {.columns = {i}});
  check("out of range", "2147483648\n", {.columns = {i}});
  check("missing", ",1\n", {.columns = {i, i}});
  check("a quote within", "a\"b,1\n", {.columns = {s, i}});
  check("text after a quote", "\"a\"b,1\n", {.columns = {s, i}});
  check("a quote without an end", "\"a,1\n", {.columns = {s, i}});
}

GOLDEN("format-raw") {
  const std::string data("\0\0\x80\x3f\1\2\3\4\0\x3c\0\xc0\xff\xff\0\1", 16);
  const Tensor bytes = tensor_of(data);
  for (const DType dtype : {DType::u8, DType::i8, DType::i16, DType::u16, DType::i32, DType::i64, DType::f16,
                            DType::f32, DType::f64})
    for (const bool little : {true, false})
      if (dtype != DType::f64 || little)
        r(std::string(name(dtype)) + (little ? " True" : " False"),
          [&] { return decode_raw(bytes, dtype, little); });
  r("bool", [&] { return decode_raw(bytes, DType::boolean); });
  r("nothing", [&] { return decode_raw(tensor_of(""), DType::i32); });
  r("half an element", [&] { return decode_raw(tensor_of(data.substr(0, 6)), DType::i32); });
}

GOLDEN("format-png") {
#ifndef LOCKSTEP_HAS_PNG
  SKIP("lockstep was built without libpng");
#else
  for (const std::string name : {"grey 1", "grey 2", "grey 4", "palette", "palette with alpha",
                                 "grey with a transparent value", "colour with a transparent value", "u8 1",
                                 "u16 1", "u8 2", "u16 2", "u8 3", "u16 3", "u8 4", "u16 4"}) {
    const Tensor data = tensor_of(file(r, name));
    for (const int channels : {0, 1, 3, 4})
      for (const DType dtype : {DType::u8, DType::u16})
        r(name + ", " + std::to_string(channels) + ", " + std::string(lockstep::name(dtype)),
          [&] { return decode_png(data, channels, dtype); });
  }
  const std::string data = file(r, "u8 3");
  r("decode_image", [&] { return decode_image(tensor_of(data)); });
  r("cut short", [&] { return decode_png(tensor_of(data.substr(0, 60))); });
  r("a damaged checksum", [&] {
    std::string damaged = data;
    damaged[45] = static_cast<char>(damaged[45] ^ 1);
    return decode_png(tensor_of(damaged));
  });
  r("no image", [&] { return decode_png(tensor_of("text")); });
  r("nothing", [&] { return decode_png(tensor_of("")); });
  r("5 channels", [&] { return decode_png(tensor_of(data), 5); });
#endif
}

GOLDEN("format-jpeg") {
#ifndef LOCKSTEP_HAS_JPEG
  SKIP("lockstep was built without libjpeg");
#else
  for (const std::string name :
       {"grey", "colour", "colour of quality 50", "progressive", "no downsampling", "one pixel"}) {
    const Tensor data = tensor_of(file(r, name));
    for (const int channels : {0, 1, 3}) {
      const std::string result = name + ", " + std::to_string(channels);
      r(result, [&] { return nearly(decode_jpeg(data, channels), r.given(result)); });
    }
  }
  const std::string data = file(r, "colour");
  const Tensor grey = tensor_of(file(r, "grey"));
  r("decode_image", [&] { return nearly(decode_image(grey), r.given("decode_image")); });
  r("cut short", [&] { return decode_jpeg(tensor_of(data.substr(0, data.size() - 60))); });
  r("no image", [&] { return decode_jpeg(tensor_of("text")); });
  r("4 channels", [&] { return decode_jpeg(tensor_of(data), 4); });
  r("decode_image of neither", [&] { return decode_image(tensor_of("text that is no image")); });
#endif
}

GOLDEN("format-list-files") {
  const TemporaryDirectory folder;
  for (const std::string name :
       {"b.txt", "a.txt", "B.txt", "a.csv", ".hidden.txt", "sub/c.txt", "sub/d.txt", "x*y"}) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    std::ofstream(folder.path() / name).put('\n');
  }
  const auto names = [&](std::vector<std::string> patterns) {
    for (std::string& pattern : patterns) pattern = (folder.path() / pattern).string();
    Json all = Json::array();
    for (const Tensor& path : list_files(patterns, false))
      all.push_back(std::filesystem::path(readers::text(path)).lexically_relative(folder.path()).string());
    return rows(std::move(all));
  };
  for (const std::string pattern :
       {"*.txt", "?.txt", "[ab].txt", "*/*.txt", "a.txt", "x\\*y", "*", "sub*", "*.none", "no/*.txt"})
    r(pattern, [&] { return names({pattern}); });
  r("two patterns", [&] { return names({"a.*", "*.csv"}); });
  r("the same twice", [&] { return names({"a.txt", "a.txt"}); });
  r("cardinality", [&] { return list_files((folder.path() / "*.txt").string(), false).cardinality(); });
}

}  // namespace lockstep::test
