#include "input/formats/compressed/compressed_file.hpp"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "support/matchers.hpp"
#include "support/zip_file.hpp"
#ifdef LOCKSTEP_HAS_ZSTD
#include "support/zstd_file.hpp"
#endif

using namespace lockstep;
using readers::Compression;
using test::says;
using test::TemporaryFile;

namespace compressed_file_test {
/// The bytes in every compression that there is.
std::vector<std::pair<Compression, std::string>> in_all_forms(const std::string& bytes) {
  return {{Compression::none, bytes},
          {Compression::gzip, test::gzipped(bytes.substr(0, 5)) + test::gzipped(bytes.substr(5))},
          {Compression::zlib, test::compressed(bytes, 15)},
#ifdef LOCKSTEP_HAS_ZSTD
          {Compression::zstd, test::zstd_frame(bytes.substr(0, 5)) + test::zstd_frame(bytes.substr(5))}
#endif
  };
}

std::vector<std::string> texts(const readers::Reader<Tensor>& reader, const TemporaryFile& file) {
  std::vector<std::string> all;
  for (auto next = reader(file.path()); const auto element = next();) all.push_back(readers::text(*element));
  return all;
}
}  // namespace compressed_file_test

using compressed_file_test::in_all_forms;
using compressed_file_test::texts;
using Texts = std::vector<std::string>;

TEST_CASE("lines, records and csv are read from every compression", "[input][host]") {
  for (const auto& [compression, bytes] : in_all_forms("head12,3\n4,56\n")) {
    const TemporaryFile file(bytes);
    CHECK(texts(readers::lines({.compression = compression}), file) == Texts{"head12,3", "4,56"});
    CHECK(texts(readers::records(
                    {.record_bytes = 3, .header_bytes = 4, .footer_bytes = 1, .compression = compression}),
                file) == Texts{"12,", "3\n4", ",56"});
    auto next = readers::csv(
        {.columns = {readers::CsvColumn::text(), DType::i32}, .compression = compression})(file.path());
    CHECK(next()->at(1).item<std::int32_t>() == 3);
    CHECK(next()->at(1).item<std::int32_t>() == 56);
    CHECK_FALSE(next());
  }
}

TEST_CASE("compressed records are cut between header and footer", "[input][host]") {
  for (const auto& [compression, bytes] : in_all_forms("headaabbfoot")) {
    if (compression == Compression::none) continue;
    const TemporaryFile file(bytes);
    const auto read = [&](std::int64_t record, std::int64_t header, std::int64_t footer) {
      return texts(readers::records({.record_bytes = record,
                                     .header_bytes = header,
                                     .footer_bytes = footer,
                                     .compression = compression}),
                   file);
    };
    CHECK(read(2, 4, 4) == Texts{"aa", "bb"});
    CHECK(read(4, 0, 0) == Texts{"head", "aabb", "foot"});
    CHECK(read(12, 0, 0) == Texts{"headaabbfoot"});
    CHECK(read(5, 6, 6).empty());
    CHECK_THROWS_MATCHES(read(3, 4, 4), InvalidArgument,
                         says("byte 7", ": the last record has 1 bytes of 3. Pass a file of whole records"));
    CHECK_THROWS_MATCHES(read(1, 13, 0), InvalidArgument,
                         says("byte 0", ": the header has 13 bytes, but the file ends after 12"));
    CHECK_THROWS_MATCHES(read(1, 10, 3), InvalidArgument,
                         says("byte 10", ": the footer has 3 bytes, but the file ends after 2"));
    CHECK_THROWS_AS(read(INT64_MAX, 0, 0), InvalidArgument);
    CHECK_THROWS_AS(read(1, 0, INT64_MAX), InvalidArgument);
  }
}

TEST_CASE("a compression that is none is refused at once", "[input][host]") {
  const auto none = static_cast<Compression>(9);
  CHECK_THROWS_MATCHES(readers::lines({.compression = none}), InvalidArgument,
                       says("readers::lines: compression 9 is none"));
  CHECK_THROWS_AS(readers::records({.record_bytes = 1, .compression = none}), InvalidArgument);
  CHECK_THROWS_AS(readers::csv({.columns = {DType::f32}, .compression = none}), InvalidArgument);
#ifndef LOCKSTEP_HAS_ZSTD
  CHECK_THROWS_MATCHES(readers::lines({.compression = Compression::zstd}), Unsupported,
                       says("readers::lines of zstd: lockstep was built without libzstd", "libzstd-dev"));
#endif
}
