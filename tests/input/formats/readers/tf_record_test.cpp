#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>

#include "support/matchers.hpp"
#include "support/tf_record_file.hpp"
#include "support/zip_file.hpp"

using namespace lockstep;
using readers::Compression;
using test::says;
using test::TemporaryFile;
using test::tf_record_bytes;

#ifdef LOCKSTEP_HAS_ISAL

namespace tf_record_test {
using Texts = std::vector<std::string>;

/// The records, and what is wrong with those that are bad.
Texts records_of(const std::string& bytes, const readers::TfRecordOptions& options = {}) {
  const TemporaryFile file(bytes);
  auto next = readers::tf_record(options)(file.path());
  Texts all;
  for (;;) {
    try {
      const auto record = next();
      if (!record) return all;
      CHECK(record->dtype() == DType::u8);
      all.push_back(readers::text(*record));
    } catch (const readers::BadRecord& error) {
      CHECK(std::string(error.what()).find(file.path().string()) != std::string::npos);
      const std::string message = error.what();
      all.push_back(message.substr(message.find(", byte ") + 2));
    }
  }
}
}  // namespace tf_record_test

using tf_record_test::records_of;
using tf_record_test::Texts;

TEST_CASE("the records of a TFRecord file are read, in every compression", "[input][host]") {
  const std::string large(100'000, 'x');
  const std::string bytes = tf_record_bytes("one") + tf_record_bytes("") + tf_record_bytes(large);
  CHECK(records_of(bytes) == Texts{"one", "", large});
  CHECK(records_of(test::gzipped(bytes), {.compression = Compression::gzip}) == Texts{"one", "", large});
  CHECK(records_of(test::compressed(bytes, 15), {.compression = Compression::zlib}) ==
        Texts{"one", "", large});
  CHECK(records_of("").empty());
}

TEST_CASE("a record whose data is damaged is left out, and the next one read", "[input][host]") {
  std::string bytes = tf_record_bytes("one") + tf_record_bytes("two") + tf_record_bytes("three");
  bytes[19 + 12] ^= 1;
  const std::string bad =
      "byte 19: record 1: the checksum of its data does not match. Pass a TFRecord file, and the compression "
      "that "
      "it was written with.";
  CHECK(records_of(bytes) == Texts{"one", bad, "three"});
  const TemporaryFile file(bytes), other(tf_record_bytes("four"));
  const auto dataset = Dataset::from_files({file.path(), other.path()}, readers::tf_record());
  auto pass = dataset.iterator();
  CHECK(readers::text(*pass.next_optional()) == "one");
  CHECK_THROWS_MATCHES(
      pass.next_optional(), InvalidArgument,
      says("Dataset::from_files: ", "element 1: ", file.path().string(), ", byte 19: record 1: "));
  CHECK(readers::text(*pass.next_optional()) == "three");
  CHECK(readers::text(*pass.next_optional()) == "four");
  std::vector<std::string> left;
  for (const Tensor& record : dataset.ignore_errors(1, [](auto&&...) {}))
    left.push_back(readers::text(record));
  CHECK(left == Texts{"one", "three", "four"});
}

TEST_CASE("a record beyond the limit is passed over", "[input][host]") {
  const std::string bytes = tf_record_bytes("one") + tf_record_bytes("four") + tf_record_bytes("two");
  const std::string bad = "byte 19: record 1 has 4 bytes, more than max_record_bytes, 3. ";
  const Texts records = records_of(bytes, {.max_record_bytes = 3});
  REQUIRE(records.size() == 3);
  CHECK(records[1].find(bad) == 0);
  CHECK(records[2] == "two");
}

TEST_CASE("a TFRecord file whose lengths cannot be trusted ends there", "[input][host]") {
  const auto compression = GENERATE(Compression::none, Compression::gzip);
  const auto error_of = [&](std::string bytes) -> std::string {
    if (compression == Compression::gzip) bytes = test::gzipped(bytes);
    try {
      return records_of(bytes, {.compression = compression}).back();
    } catch (const InvalidArgument& error) {
      CHECK(dynamic_cast<const readers::BadRecord*>(&error) == nullptr);
      return error.what();
    }
  };
  const std::string place = compression == Compression::gzip ? " of the decompressed data" : "";
  const std::string one = tf_record_bytes("one"), two = tf_record_bytes("two");
  std::string damaged = one + two;
  damaged[19] ^= 1;
  CHECK(error_of(damaged).find("byte 19" + place + ": record 1: the checksum of its length does not match") !=
        std::string::npos);
  CHECK(
      error_of(one + two.substr(0, 5)).find("byte 19" + place + ": record 1: its header has 12 bytes, but") !=
      std::string::npos);
  CHECK(error_of(one + two.substr(0, 17))
            .find("byte 34" + place + ": the checksum of record 1 has 4 bytes, but") != std::string::npos);
  CHECK(error_of(one + two.substr(0, 13))
            .find("byte 31" + place + ": record 1 has 3 bytes, but the file ends") != std::string::npos);
  const std::string huge = test::bytes_of(std::uint64_t{1} << 62);
  const std::string checked = huge + test::bytes_of(std::rotr(test::plain_crc32c(huge), 15) + 0xa282ead8U);
  CHECK(error_of(checked).find("record 0 has 4611686018427387904 bytes, but the file ends") !=
        std::string::npos);
}

TEST_CASE("a small compressed file that holds a huge record is not inflated into memory", "[input][host]") {
  const std::string bomb =
      test::gzipped(tf_record_bytes(std::string(3'000'000, '\0')) + tf_record_bytes("x"));
  CHECK(bomb.size() < 10'000);
  const Texts records = records_of(bomb, {.compression = Compression::gzip, .max_record_bytes = 1'000'000});
  REQUIRE(records.size() == 2);
  CHECK(records[0].find("record 0 has 3000000 bytes, more than max_record_bytes, 1000000") !=
        std::string::npos);
  CHECK(records[1] == "x");
}

TEST_CASE("options of TFRecord files are checked at once, and their paths when they are read",
          "[input][host]") {
  CHECK_THROWS_MATCHES(readers::tf_record({.max_record_bytes = -1}), InvalidArgument,
                       says("readers::tf_record: max_record_bytes is -1. Pass 0 or more."));
  CHECK_THROWS_AS(readers::tf_record({.compression = static_cast<Compression>(7)}), InvalidArgument);
  CHECK_THROWS_MATCHES(readers::tf_record()("/no/such"), NotFound, says("readers::tf_record: \"/no/such\""));
}

#else

TEST_CASE("without ISA-L a TFRecord reader is refused with the package's name", "[input][host]") {
  CHECK_THROWS_MATCHES(readers::tf_record(), Unsupported,
                       says("readers::tf_record: lockstep was built without ISA-L", "libisal-dev"));
}

#endif
