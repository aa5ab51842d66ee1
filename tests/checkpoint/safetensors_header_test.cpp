#include "checkpoint/safetensors_header.hpp"

#include <locale>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using detail::check_safetensors_key;
using detail::make_safetensors_header;
using detail::SafetensorsEntry;
using test::says;

namespace {

/// A locale in which 1024 is 1,024.
class Thousands : public std::numpunct<char> {
  char do_thousands_sep() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
};

}  // namespace

TEST_CASE("every dtype has its name in the format", "[checkpoint][host]") {
  const std::vector<std::string> names = {"F16", "BF16", "F32", "F64", "I8",   "I16",     "I32",    "I64",
                                          "U8",  "U16",  "U32", "U64", "BOOL", "F8_E4M3", "F8_E5M2"};
  REQUIRE(names.size() == kNumDTypes);
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(detail::safetensors_name(dtype) == names[static_cast<std::size_t>(i)]);
    CHECK(detail::parse_safetensors_name(names[static_cast<std::size_t>(i)]) == dtype);
  }
  CHECK_FALSE(detail::parse_safetensors_name("F4"));
}

TEST_CASE("a header is what the reference implementation writes", "[checkpoint][host]") {
  // Its own tests' examples: the second is padded.
  std::vector<SafetensorsEntry> entries{{"attn.0", DType::f32, Shape(1, 2, 3)}};
  CHECK(make_safetensors_header(entries) ==
        R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})");
  entries = {{"attn0", DType::f32, Shape(1, 1, 2, 3)}};
  CHECK(make_safetensors_header(entries) ==
        R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )");
  entries.clear();
  CHECK(make_safetensors_header(entries) == "{}      ");
}

TEST_CASE("entries follow each other in a header", "[checkpoint][host]") {
  std::vector<SafetensorsEntry> entries{
      {"a", DType::f64, Shape()}, {"b", DType::f16, Shape(3, 0)}, {"c", DType::boolean, Shape(5)}};
  const std::string header = make_safetensors_header(entries);
  CHECK(header.size() % 8 == 0);
  CHECK(header.find(R"("a":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"F16","shape":[3,0],"data_offsets":[8,8]},)"
                    R"("c":{"dtype":"BOOL","shape":[5],"data_offsets":[8,13]})") == 1);
  CHECK(entries[2].begin == 8);
  CHECK(entries[2].end == 13);
}

TEST_CASE("keys are escaped as JSON wants", "[checkpoint][host]") {
  std::vector<SafetensorsEntry> entries{{"\"\\\n\x01\xc3\xa9", DType::u8, Shape()}};
  CHECK(make_safetensors_header(entries).starts_with("{\"\\\"\\\\\\n\\u0001\xc3\xa9\":{"));
}

TEST_CASE("headers do not depend on the global locale", "[checkpoint][host]") {
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Thousands));
  std::vector<SafetensorsEntry> entries{{"a", DType::u8, Shape(10000)}};
  const std::string header = make_safetensors_header(entries);
  std::locale::global(before);
  CHECK(header.find(R"("shape":[10000],"data_offsets":[0,10000])") != std::string::npos);
}

TEST_CASE("keys that the format cannot hold are refused", "[checkpoint][host]") {
  CHECK_NOTHROW(check_safetensors_key("layer/0 \xc3\xa9", "add"));
  CHECK_THROWS_MATCHES(check_safetensors_key("", "add"), InvalidArgument, says("add: a key is empty"));
  CHECK_THROWS_MATCHES(check_safetensors_key("__metadata__", "add"), InvalidArgument,
                       says("add: the key '__metadata__' is the format's own"));
  CHECK_THROWS_MATCHES(check_safetensors_key("caf\xe9", "add"), InvalidArgument,
                       says("add: the key 'caf?' is not UTF-8"));
}
