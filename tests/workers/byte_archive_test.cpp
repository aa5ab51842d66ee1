#include "workers/byte_archive.hpp"

#include <catch2/catch_test_macros.hpp>

#include <lockstep/dtype.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using detail::ByteReader;
using detail::ByteWriter;
using test::says;

TEST_CASE("what was written is read", "[workers][host]") {
  ByteWriter writer;
  writer.put(std::int64_t{-7});
  writer.put(true);
  writer.put(DType::f64);
  writer.put_text("text");
  writer.put(std::uint32_t{2});
  writer.put(1.5f);
  writer.put(2.5f);
  ByteReader reader(writer.bytes());
  CHECK(reader.get<std::int64_t>() == -7);
  CHECK(reader.get<bool>());
  CHECK(reader.get_enum<DType>(kNumDTypes) == DType::f64);
  CHECK(reader.get_text() == "text");
  CHECK(reader.get_length(sizeof(float)) == 2);
  CHECK(reader.get<float>() == 1.5f);
  CHECK(reader.rest().size() == sizeof(float));
}

TEST_CASE("what no writer writes is refused, and takes no memory", "[workers][host]") {
  ByteWriter writer;
  writer.put(std::uint8_t{200});
  CHECK(ByteReader(writer.bytes()).get<bool>());
  CHECK_THROWS_MATCHES(ByteReader(writer.bytes()).get<std::uint32_t>(), Error,
                       says("a message of another worker ends after 1 bytes, where 4 are expected"));
  CHECK_THROWS_MATCHES(
      ByteReader(writer.bytes()).get_enum<DType>(kNumDTypes), Error,
      says("has 200 where numbers below 15 are expected", "Run the same build on all workers"));
  writer.clear();
  writer.put(std::uint32_t{0xffffffff});
  writer.put(std::uint32_t{0});
  CHECK_THROWS_MATCHES(ByteReader(writer.bytes()).get_text(), Error, says("where 4294967295 are expected"));
  CHECK_THROWS_MATCHES(ByteReader(writer.bytes()).get_length(4), Error,
                       says("has 4 bytes more, which 4294967295 elements do not fit in"));
}
