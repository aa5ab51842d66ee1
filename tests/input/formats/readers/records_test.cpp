#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>

#include "input/pipeline/pipeline.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"
#include "support/zip_file.hpp"

using namespace lockstep;
using test::says;
using test::TemporaryFile;

namespace records_test {
std::vector<std::string> records_of(const std::string& bytes, const readers::RecordOptions& options) {
  const TemporaryFile file(bytes);
  std::vector<std::string> records;
  for (auto next = readers::records(options)(file.path()); const auto record = next();) {
    CHECK(record->shape() == Shape(options.record_bytes));
    records.push_back(readers::text(*record));
  }
  return records;
}
}  // namespace records_test

using records_test::records_of;

TEST_CASE("records are cut between header and footer", "[input][host]") {
  using Records = std::vector<std::string>;
  CHECK(records_of("aabbcc", {.record_bytes = 2}) == Records{"aa", "bb", "cc"});
  CHECK(records_of("head--aabb.", {.record_bytes = 2, .header_bytes = 6, .footer_bytes = 1}) ==
        Records{"aa", "bb"});
  CHECK(records_of("", {.record_bytes = 2}).empty());
  CHECK(records_of("head.", {.record_bytes = 2, .header_bytes = 4, .footer_bytes = 1}).empty());
  const std::string large(100'000, 'x');
  CHECK(records_of(large + large, {.record_bytes = 100'000}) == Records{large, large});
  CHECK(records_of(large, {.record_bytes = 1000}).size() == 100);
}

TEST_CASE("a file that is not whole records is refused, and the next one read", "[input][host]") {
  const TemporaryFile bad("head aab."), good("head bb.");
  const auto dataset = Dataset::from_files(
      {bad.path(), good.path()}, readers::records({.record_bytes = 2, .header_bytes = 5, .footer_bytes = 1}));
  auto pass = dataset.pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("readers::records: ", bad.path().string(),
                            "byte 7: the last record has 1 bytes of 2. Pass a file of whole records"));
  CHECK(readers::text(pass->next()->at(0)) == "bb");
  CHECK_FALSE(pass->next());
  CHECK_THROWS_MATCHES(records_of("1234", {.record_bytes = 2, .header_bytes = 3, .footer_bytes = 2}),
                       InvalidArgument,
                       says("byte 4: a header of 3 bytes and a footer of 2 do not fit into it"));
  CHECK_THROWS_AS(
      records_of("1234", {.record_bytes = 2, .header_bytes = INT64_MAX, .footer_bytes = INT64_MAX}),
      InvalidArgument);
  CHECK_THROWS_AS(records_of("1", {.record_bytes = INT64_MAX}), InvalidArgument);
  CHECK_THROWS_MATCHES(readers::records({.record_bytes = 2})("/no/such"), NotFound,
                       says("readers::records: \"/no/such\" cannot be opened"));
}

TEST_CASE("lengths of records that are none are refused at once", "[input][host]") {
  CHECK_THROWS_MATCHES(readers::records({}), InvalidArgument, says("readers::records: records of 0 bytes"));
  CHECK_THROWS_AS(readers::records({.record_bytes = 1, .header_bytes = -1}), InvalidArgument);
  CHECK_THROWS_AS(readers::records({.record_bytes = 1, .footer_bytes = -1}), InvalidArgument);
}

TEST_CASE("compressed records go on at any of them", "[input][host]") {
  const int footer_bytes = GENERATE(0, 1, 4, 40);
  std::string bytes = "head";
  for (char c = 'a'; c < 'k'; ++c) bytes += std::string(3, c);
  const TemporaryFile file(test::gzipped(bytes + std::string(static_cast<std::size_t>(footer_bytes), 'f')));
  const readers::RecordOptions options{.record_bytes = 3,
                                       .header_bytes = 4,
                                       .footer_bytes = footer_bytes,
                                       .compression = readers::Compression::gzip};
  const auto elements = readers::records(options)(file.path());
  for (int i = 0; i <= 10; ++i) {
    const auto later = readers::records(options)(file.path());
    later.seek(elements.position());
    for (int k = i; k < 10; ++k)
      CHECK(readers::text(later().value()) == std::string(3, static_cast<char>('a' + k)));
    CHECK_FALSE(later());
    CHECK(elements().has_value() == (i < 10));
  }
  const auto wrong = readers::records(options)(file.path());
  CHECK_THROWS_MATCHES(wrong.seek({5}), InvalidArgument, test::says("is not one where an element begins"));
}
