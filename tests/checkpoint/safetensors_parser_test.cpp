#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "checkpoint/safetensors_header.hpp"
#include "support/safetensors_bytes.hpp"

using namespace lockstep;
using detail::parse_safetensors_header;
using detail::SafetensorsEntry;
using detail::SafetensorsFault;

namespace {

/// The entry at fault, and why: "w: …", ": …" for the file as a whole.
std::string fault_of(std::string_view header, std::uint64_t data_bytes = 0) {
  try {
    parse_safetensors_header(header, data_bytes);
  } catch (const SafetensorsFault& fault) {
    return fault.key + ": " + fault.reason;
  }
  return "no fault";
}

/// The fault of a header with one entry 'w'.
std::string fault_of_entry(std::string_view value) { return fault_of("{\"w\":" + std::string(value) + "}"); }

std::string entry(std::string_view key, std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return test::safetensors_entry(key, dtype, shape, offsets);
}

}  // namespace

TEST_CASE("a header that was made is parsed", "[checkpoint][host]") {
  std::vector<SafetensorsEntry> made;
  for (int i = 0; i < kNumDTypes; ++i)
    made.push_back({"\"key\"\n" + std::to_string(i), static_cast<DType>(i), Shape(i % 3, 5)});
  made.push_back({"scalar", DType::f32, Shape()});
  const std::string header = detail::make_safetensors_header(made);
  const auto parsed = parse_safetensors_header(header, made.back().end);
  REQUIRE(parsed.size() == made.size());
  for (const SafetensorsEntry& entry : made) {
    const SafetensorsEntry& found = parsed.at(entry.key);
    CHECK(found.key == entry.key);
    CHECK(found.dtype == entry.dtype);
    CHECK(found.shape == entry.shape);
    CHECK(found.begin == entry.begin);
    CHECK(found.end == entry.end);
    CHECK(found.unsupported.empty());
  }
}

TEST_CASE("metadata, blanks, escapes and any order are taken", "[checkpoint][host]") {
  const auto parsed = parse_safetensors_header(
      R"({ "__metadata__" : {"format": "pt", "\u00e9": ""},
           "b": {"data_offsets": [ 4, 8 ], "shape": [1], "dtype": "F32"}, "\u0061":)"
      "\t"
      R"({"dtype":"I16","shape":[2,1],"data_offsets":[0,4]}}   )",
      8);
  REQUIRE(parsed.size() == 2);
  CHECK(parsed.at("a").dtype == DType::i16);
  CHECK(parsed.at("a").shape == Shape(2, 1));
  CHECK(parsed.contains("b"));
  CHECK(parse_safetensors_header("{}", 0).empty());
}

TEST_CASE("what is not a JSON object is refused", "[checkpoint][host]") {
  CHECK(fault_of("") == ": its header does not begin with '{'");
  CHECK(fault_of("[]") == ": its header does not begin with '{'");
  CHECK(fault_of(" {}") == ": its header does not begin with '{'");
  CHECK(fault_of("{") == ": its header is not JSON at byte 2 of it");
  CHECK(fault_of("{\"w\"}") == ": its header is not JSON at byte 5 of it");
  CHECK(fault_of("{} {}") == ": its header is not JSON at byte 4 of it");
  CHECK(fault_of(std::string_view("{}\0{", 4)) == ": its header is not JSON at byte 3 of it");
  CHECK(fault_of("{\"\xff\": 1}") == ": its header is not JSON at byte 3 of it");
  CHECK(fault_of("{\"w\": 1e999}") == ": its header is not JSON at byte 11 of it");
}

TEST_CASE("a header of nested lists or objects is refused, however deep", "[checkpoint][host]") {
  constexpr std::size_t kDeep = 1'000'000;
  CHECK(fault_of_entry(std::string(kDeep, '[')) == "w: it is a list, not an object");
  std::string objects;
  for (std::size_t i = 0; i < kDeep; ++i) objects += "{\"a\":";
  CHECK(fault_of_entry(objects) == "w: its field 'a' is not one of dtype, shape, data_offsets");
  CHECK(fault_of_entry("{\"shape\":" + std::string(kDeep, '[')) ==
        "w: its shape has a list where an integer is due");
}

TEST_CASE("entries that are not entries are refused by name", "[checkpoint][host]") {
  CHECK(fault_of_entry("1") == "w: it is a number, not an object");
  CHECK(fault_of_entry("-1") == "w: it is a number, not an object");
  CHECK(fault_of_entry("1.5") == "w: it is a number, not an object");
  CHECK(fault_of_entry("null") == "w: it is null, not an object");
  CHECK(fault_of_entry("true") == "w: it is a boolean, not an object");
  CHECK(fault_of_entry("\"x\"") == "w: it is the string 'x', not an object");
  CHECK(fault_of_entry("{}") == "w: its field 'dtype' is missing");
  CHECK(fault_of_entry(R"({"dtype":"F32"})") == "w: its field 'shape' is missing");
  CHECK(fault_of_entry(R"({"dtype":"F32","shape":[]})") == "w: its field 'data_offsets' is missing");
  CHECK(fault_of_entry(R"({"scale":1})") == "w: its field 'scale' is not one of dtype, shape, data_offsets");
  CHECK(fault_of_entry(R"({"dtype":1})") == "w: its dtype is a number");
  CHECK(fault_of_entry(R"({"shape":2})") == "w: its shape is a number");
  CHECK(fault_of_entry(R"({"shape":{}})") == "w: its shape is an object");
  CHECK(fault_of_entry(R"({"shape":[null]})") == "w: its shape has null where an integer is due");
  CHECK(fault_of_entry(R"({"shape":[-2]})") == "w: its extent -2 is negative");
  CHECK(fault_of_entry(R"({"shape":[2.0]})") == "w: its number '2.0' is not an integer of 64 bits");
  CHECK(fault_of_entry(R"({"shape":[9223372036854775808]})") ==
        "w: its extent 9223372036854775808 does not fit 63 bits");
  CHECK(fault_of_entry(R"({"shape":[18446744073709551616]})") ==
        "w: its number '18446744073709551616' is not an integer of 64 bits");
  CHECK(fault_of_entry(R"({"data_offsets":[-1]})") == "w: its offset -1 is negative");
  CHECK(fault_of_entry(R"({"data_offsets":[0,0,0]})") == "w: its data_offsets are not two");
  CHECK(fault_of_entry(R"({"dtype":"F32","shape":[0],"data_offsets":[0]})") ==
        "w: its data_offsets are not two");
  CHECK(fault_of_entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})")
            .starts_with("w: Shape: [4294967296, 4294967296] has more than"));
  CHECK(fault_of(R"({"__metadata__":{"steps":7}})") ==
        "__metadata__: its value for 'steps' is a number, not a string");
  CHECK(fault_of(R"({"__metadata__":"x"})") == "__metadata__: it is the string 'x', not an object");
}

TEST_CASE("entries of dtypes and ranks that no Tensor has stand beside the others", "[checkpoint][host]") {
  const auto unsupported = [](std::string_view dtype, std::string_view shape) {
    const std::string header = "{" + entry("a", "F32", "", "0,4") + "," + entry("w", dtype, shape, "4,7") +
                               "," + entry("z", "U8", "2", "7,9") + "}";
    const auto parsed = parse_safetensors_header(header, 9);
    CHECK(parsed.at("a").unsupported.empty());
    CHECK(parsed.at("z").begin == 7);
    return parsed.at("w").unsupported;
  };
  constexpr std::string_view kKnown =
      " is not supported, only F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 BOOL F8_E4M3 F8_E5M2";
  for (const std::string dtype : {"F8_E8M0", "F4", "C64", "of tomorrow"})
    CHECK(unsupported(dtype, "3") == "its dtype '" + dtype + "'" + std::string(kKnown));
  CHECK(unsupported("U8", "1,1,1,1,1,1,1,1,3") == "its rank is not supported, at most 8");
  CHECK(unsupported("F4", "1,1,1,1,1,1,1,1,6").find("is not supported") != std::string::npos);
  // Their bytes are checked as others' are.
  const std::string hole = "{" + entry("w", "F4", "6", "1,4") + "}";
  CHECK(fault_of(hole, 4) ==
        "w: its data_offsets [1, 4) leave a hole after the entry before, which ends at 0");
  CHECK(fault_of("{" + entry("w", "F4", "6", "0,4") + "}", 3) ==
        "w: its data_offsets [0, 4) exceed the 3 bytes of data that the file has");
  CHECK(fault_of("{" + entry("w", "F4", "-1", "0,0") + "}") == "w: its extent -1 is negative");
}

TEST_CASE("what is there twice is refused by name", "[checkpoint][host]") {
  const std::string w = entry("w", "F32", "", "0,4");
  CHECK(fault_of("{" + w + "," + w + "}", 4) == "w: it is there twice");
  CHECK(fault_of("{" + w + R"(,"\u0077":{}})", 4) == "w: it is there twice");
  CHECK(fault_of_entry(R"({"dtype":"F32","dtype":"F32"})") == "w: its field 'dtype' is there twice");
  CHECK(fault_of(R"({"__metadata__":{},"__metadata__":{}})") == "__metadata__: it is there twice");
  CHECK(fault_of(R"({"__metadata__":{"a":"","a":""}})") == "__metadata__: its field 'a' is there twice");
}

TEST_CASE("bytes that are not exactly those of the entries are refused", "[checkpoint][host]") {
  const auto fault = [](std::string_view shape, std::string_view offsets, std::uint64_t data_bytes) {
    return fault_of("{" + entry("w", "F32", shape, offsets) + "}", data_bytes);
  };
  CHECK(fault("2", "0,8", 8) == "no fault");
  CHECK(fault("2", "0,8", 7) == "w: its data_offsets [0, 8) exceed the 7 bytes of data that the file has");
  CHECK(fault("2", "0,8", 9) == ": it has 1 bytes after the data of the last entry");
  CHECK(fault("2", "8,0", 8) == "w: its data_offsets [8, 0) end before they begin");
  CHECK(fault("2", "1,9", 9) ==
        "w: its data_offsets [1, 9) leave a hole after the entry before, which ends at 0");
  CHECK(fault("3", "0,8", 8) == "w: its data_offsets [0, 8) are 8 bytes, but [3] float32 has 12");
  CHECK(fault("0,1000", "0,4", 4) == "w: its data_offsets [0, 4) are 4 bytes, but [0, 1000] float32 has 0");
  CHECK(fault("2305843009213693951", "0,8", 8).starts_with("w: Shape: [2305843009213693951] has more than"));
  CHECK(fault("1152921504606846975", "0,4", 4) ==
        "w: its data_offsets [0, 4) are 4 bytes, but [1152921504606846975] float32 has 4611686018427387900");
  CHECK(fault("2", "18446744073709551608,18446744073709551615", 8).find("exceed") != std::string::npos);

  const std::string a = entry("a", "F32", "2", "0,8");
  const auto two = [&](std::string_view offsets) {
    return fault_of("{" + entry("b", "F32", "2", offsets) + "," + a + "}", 16);
  };
  CHECK(two("8,16") == "no fault");
  CHECK(two("4,12") == "b: its data_offsets [4, 12) overlap the entry before, which ends at 8");
  CHECK(two("0,8") == "b: its data_offsets [0, 8) overlap the entry before, which ends at 8");
  CHECK(two("9,17") == "b: its data_offsets [9, 17) exceed the 16 bytes of data that the file has");
}

TEST_CASE("every shortened or altered header is parsed or refused, never worse", "[checkpoint][host]") {
  std::vector<SafetensorsEntry> entries{{"a\xc3\xa9\n", DType::f32, Shape(2, 3)},
                                        {"b", DType::boolean, Shape()},
                                        {"c", DType::bf16, Shape(0, 7)}};
  const std::string header = detail::make_safetensors_header(entries);
  const std::uint64_t data_bytes = entries.back().end;
  int num_accepted = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    num_accepted += fault_of(header.substr(0, i), data_bytes) == "no fault";
    for (int byte = 0; byte < 256; ++byte) {
      std::string altered = header;
      altered[i] = static_cast<char>(byte);
      num_accepted += fault_of(altered, data_bytes) == "no fault";
    }
  }
  CHECK(num_accepted > 0);  // another key, another blank
}
