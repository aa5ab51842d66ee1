#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>
#include <lockstep/memory.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/zip_file.hpp"

using namespace lockstep;
using test::bytes_of;
using test::gzipped;
using test::says;
using test::TemporaryFile;

namespace idx_test {
constexpr bool kBigEndian = true;

std::string header(int type, const std::vector<std::uint32_t>& extents) {
  std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) bytes += bytes_of(extent, kBigEndian);
  return bytes;
}

/// What remains of a file after `num_rows` rows is refused.
void check_refused(const std::string& bytes, int num_rows, const std::string& reason) {
  const TemporaryFile file(bytes), good(header(8, {1, 1}) + "x");
  const std::int64_t in_use = memory_stats("CPU:0").in_use_bytes;
  {
    auto pass = Dataset::from_files({file.path(), good.path()}, readers::idx()).pipeline()->open();
    for (int row = 0; row < num_rows; ++row) CHECK(pass->next());
    CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                         says("readers::idx: ", file.path().string(), reason, "Pass an IDX file"));
    CHECK(pass->next()->at(0).item<std::uint8_t>() == 'x');
    CHECK_FALSE(pass->next());
  }
  CHECK(memory_stats("CPU:0").in_use_bytes == in_use);
}

template <class T>
constexpr int kCode = 0;
template <>
constexpr int kCode<std::uint8_t> = 0x08;
template <>
constexpr int kCode<std::int8_t> = 0x09;
template <>
constexpr int kCode<std::int16_t> = 0x0b;
template <>
constexpr int kCode<std::int32_t> = 0x0c;
template <>
constexpr int kCode<float> = 0x0d;
template <>
constexpr int kCode<double> = 0x0e;
using Types = std::tuple<std::uint8_t, std::int8_t, std::int16_t, std::int32_t, float, double>;
}  // namespace idx_test

using idx_test::check_refused;
using idx_test::header;

TEMPLATE_LIST_TEST_CASE("IDX files of every element type are read, plain or gzip", "[input][idx][host]",
                        idx_test::Types) {
  const bool is_gzip = GENERATE(false, true);
  const std::vector<TestType> values{TestType(1), std::numeric_limits<TestType>::max(), TestType(3),
                                     std::numeric_limits<TestType>::lowest()};
  std::string bytes = header(idx_test::kCode<TestType>, {2, 1, 2});
  for (const TestType value : values) bytes += bytes_of(value, idx_test::kBigEndian);
  const TemporaryFile file(is_gzip ? gzipped(bytes) : bytes);
  auto rows = readers::idx()(file.path());
  for (int row = 0; row < 2; ++row) {
    const auto tensor = rows();
    REQUIRE(tensor);
    CHECK(tensor->shape() == Shape(1, 2));
    CHECK(tensor->template to_vector<TestType>() ==
          std::vector<TestType>(values.begin() + 2 * row, values.begin() + 2 * row + 2));
  }
  CHECK_FALSE(rows());
}

TEST_CASE("IDX files of rank 1 have scalars, as MNIST's labels", "[input][idx][host]") {
  const TemporaryFile file(header(8, {3}) + "\7\2\1"), empty(header(8, {0, 28, 28}));
  const auto labels = Dataset::from_files({file.path(), empty.path()}, readers::idx());
  const auto batch = labels.batch(4).pipeline()->open()->next();
  CHECK(batch->at(0).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{7, 2, 1});
}

TEST_CASE("an IDX file with the wrong count is refused", "[input][idx][host]") {
  check_refused(header(8, {3, 2}) + "12345", 0, "byte 12: the array has more elements than the 5");
  check_refused(header(8, {2, 2}) + "12345", 2,
                "byte 16: there is more after the 2 rows that the header says");
  check_refused(gzipped(header(8, {3, 2}) + "12345"), 2,
                "byte 16 of the decompressed data: row 2 of 3 has 2 bytes, but the file ends after 1");
  check_refused(gzipped(header(8, {2, 2}) + "12345"), 2,
                "byte 16 of the decompressed data: there is more after");
}

TEST_CASE("an IDX file with a hostile header is refused", "[input][idx][host]") {
  check_refused("", 0, "byte 0: the magic number has 4 bytes, but the file ends after 0");
  check_refused("text, no array", 0, "byte 0: it does not begin with two zeros");
  check_refused(header(7, {1}) + "x", 0, "byte 2: the element type is 7");
  check_refused(header(8, {}) + "x", 0, "byte 3: the rank is 0");
  check_refused(header(8, {1}).substr(0, 6), 0, "byte 4: an extent has 4 bytes, but the file ends after 2");
  check_refused(header(14, {0xffffffff, 0xffffffff, 0xffffffff}) + "x", 0,
                "byte 16: the array has more elements");
  check_refused(header(8, {1, 1, 1, 1, 1, 1, 1, 1, 1}) + "x", 0, "byte 40: rank 9 exceeds the largest, 8");
  check_refused(header(8, {0xffffffff, 0}), 0, "byte 4: its rows have no elements");
  check_refused(gzipped(header(8, {0xffffffff, 0xffffffff})), 0, "the array has more elements than the ");
}

TEST_CASE("a gzip IDX file that is cut short or damaged is refused", "[input][idx][host]") {
  std::string data;
  for (int i = 0; i < 1000; ++i) data += static_cast<char>(i * i % 251);
  const std::string whole = gzipped(header(8, {10, 100}) + data);
  check_refused(whole.substr(0, whole.size() - 4), 10,
                "byte " + std::to_string(whole.size() - 4) + ": the compressed data is cut short");
  check_refused(whole.substr(0, 12), 0, "byte 12: the compressed data is cut short");
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;
  check_refused(damaged, 9, "the compressed data is damaged: incorrect data check");
}

TEST_CASE("an IDX file that is not there is not found", "[input][idx][host]") {
  CHECK_THROWS_MATCHES(readers::idx()("/no/such"), NotFound,
                       says("readers::idx: \"/no/such\" cannot be opened", "No such file"));
  CHECK_THROWS_MATCHES(readers::idx()("/tmp"), InvalidArgument, says("byte 0: it is not a regular file"));
}
