#include <numeric>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sys/stat.h>

#include <lockstep/error.hpp>
#include <lockstep/input/npy.hpp>
#include <lockstep/memory.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"

using namespace lockstep;
using test::bytes_of;
using test::npy_header;
using test::says;
using test::TemporaryFile;
using test::Values;

namespace {

/// Loading a file of these bytes fails at `position`, for this reason, with nothing left allocated.
void check_refused(const std::string& bytes, std::size_t position, const std::string& reason) {
  const TemporaryFile file(bytes);
  const std::int64_t in_use = memory_stats("CPU:0").in_use_bytes;
  CHECK_THROWS_MATCHES(load_npy(file.path()), InvalidArgument,
                       says("load_npy: ", file.path().string(), "byte " + std::to_string(position) + ": ",
                            reason, "numpy.save"));
  CHECK(memory_stats("CPU:0").in_use_bytes == in_use);
}

std::string i64_data(const Values& values) {
  std::string data;
  for (const std::int64_t value : values) data += bytes_of(value);
  return data;
}

using NumpyTypes = std::tuple<f16, float, double, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;

}  // namespace

TEST_CASE("files that numpy wrote are read", "[input][npy][host]") {
  const Tensor images = load_npy(std::filesystem::path(LOCKSTEP_DATA) / "digits_images.npy");
  CHECK(images.shape() == Shape(1797, 8, 8));
  CHECK(images.dtype() == DType::u8);
  CHECK(images.device() == Device("CPU:0"));
  const std::vector<std::uint8_t> pixels = images.to_vector<std::uint8_t>();
  CHECK(std::accumulate(pixels.begin(), pixels.end(), 0) == 561718);
  CHECK(std::vector<std::uint8_t>(pixels.begin(), pixels.begin() + 8) ==
        std::vector<std::uint8_t>{0, 0, 5, 13, 9, 1, 0, 0});
  const std::vector<std::uint8_t> labels =
      load_npy(std::filesystem::path(LOCKSTEP_DATA) / "digits_labels.npy").to_vector<std::uint8_t>();
  CHECK(labels.size() == 1797);
  CHECK(std::accumulate(labels.begin(), labels.end(), 0) == 8070);
}

TEMPLATE_LIST_TEST_CASE("every element type is read in either byte order", "[input][npy][host]", NumpyTypes) {
  const bool big_endian = GENERATE(false, true);
  constexpr std::string_view kName = std::is_same_v<TestType, f16>   ? "f2"
                                     : std::floating_point<TestType> ? (sizeof(TestType) == 4 ? "f4" : "f8")
                                     : std::is_signed_v<TestType>    ? "i"
                                                                     : "u";
  std::string descr = (big_endian ? ">" : "<") + std::string(kName);
  if (descr.size() == 2) descr += std::to_string(sizeof(TestType));
  const std::vector<TestType> values{TestType(1), TestType(100), std::numeric_limits<TestType>::max()};
  std::string data;
  for (const TestType value : values) data += bytes_of(value, big_endian);
  const TemporaryFile file(npy_header(descr, "(3,)") + data);
  const Tensor tensor = load_npy(file.path());
  CHECK(tensor.shape() == Shape(3));
  CHECK(tensor.to_vector<TestType>() == values);
}

TEST_CASE("booleans are read, whatever byte is true", "[input][npy][host]") {
  const TemporaryFile file(npy_header("|b1", "(4,)") + std::string("\0\1\2\xff", 4));
  const std::vector<std::byte> bytes = [&] {
    const Tensor tensor = load_npy(file.path());
    const auto* data = static_cast<const std::byte*>(tensor.view().data);
    return std::vector(data, data + 4);
  }();
  CHECK(bytes == std::vector{std::byte(0), std::byte(1), std::byte(1), std::byte(1)});
}

TEST_CASE("every version is read, whatever comes after the array", "[input][npy][host]") {
  const char major = GENERATE(char{1}, char{2}, char{3});
  const TemporaryFile file(npy_header("<i8", "(2, 1)", false, major) + i64_data({4, -5}) + "more");
  const Tensor tensor = load_npy(file.path());
  CHECK(tensor.shape() == Shape(2, 1));
  CHECK(tensor.to_vector<std::int64_t>() == Values{4, -5});
}

TEST_CASE("Fortran's order becomes row-major", "[input][npy][host]") {
  // Element (i, j, k) of [2, 3, 2] is 100 i + 10 j + k; the first axis varies fastest.
  const Values columns{0, 100, 10, 110, 20, 120, 1, 101, 11, 111, 21, 121};
  const TemporaryFile file(npy_header("<i8", "(2, 3, 2)", true) + i64_data(columns));
  const Tensor tensor = load_npy(file.path());
  CHECK(tensor.is_contiguous());
  CHECK(tensor.to_vector<std::int64_t>() == Values{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121});
  const TemporaryFile vector(npy_header("<i8", "(3,)", true) + i64_data({1, 2, 3}));
  CHECK(load_npy(vector.path()).to_vector<std::int64_t>() == Values{1, 2, 3});
}

TEST_CASE("scalars and arrays without elements are read", "[input][npy][host]") {
  const TemporaryFile scalar(npy_header("<i8", "()") + i64_data({7}));
  CHECK(load_npy(scalar.path()).item<std::int64_t>() == 7);
  const TemporaryFile empty(npy_header("<i8", "(3, 0, 9223372036854775807)"));
  CHECK(load_npy(empty.path()).shape() == Shape(3, 0, INT64_MAX));
}

TEST_CASE("a missing file is not found", "[input][npy][host]") {
  CHECK_THROWS_MATCHES(load_npy("/nowhere/at all.npy"), NotFound,
                       says("load_npy: \"/nowhere/at all.npy\" cannot be opened", "No such file"));
}

TEST_CASE("what is not a file is refused, and not waited for", "[input][npy][host]") {
  CHECK_THROWS_MATCHES(load_npy(std::filesystem::temp_directory_path()), InvalidArgument,
                       says("not a regular file"));
  const TemporaryFile pipe("");
  std::filesystem::remove(pipe.path());
  REQUIRE(mkfifo(pipe.path().c_str(), 0600) == 0);
  CHECK_THROWS_MATCHES(load_npy(pipe.path()), InvalidArgument, says("not a regular file"));
}

TEST_CASE("files that are not .npy files are refused", "[input][npy][host]") {
  check_refused("", 0, "the magic string has 6 bytes, but the file ends after 0");
  check_refused("\x93NUM", 0, "the magic string has 6 bytes, but the file ends after 4");
  check_refused("PK\3\4 an archive", 0, "not a .npy file");
  check_refused("\x93NUMPY", 6, "the version has 2 bytes");
  check_refused(std::string("\x93NUMPY\x04\0......", 14), 6, "version 4.0 is not one of 1.0, 2.0, 3.0");
  check_refused(std::string("\x93NUMPY\x01\x01......", 14), 6, "version 1.1");
  check_refused(std::string("\x93NUMPY\x00\0......", 14), 6, "version 0.0");
  check_refused(std::string("\x93NUMPY\x01\0.", 9), 8,
                "the header's length has 2 bytes, but the file ends after 1");
  check_refused(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14), 12,
                "the header has 4294967295 bytes, but the file ends after 2");
}

TEST_CASE("a hostile header is refused where it is wrong", "[input][npy][host]") {
  check_refused(npy_header("{'descr': '<f4', 'fortran_order': False}"), 10, "the key 'shape' is missing");
  check_refused(npy_header("{'descr': '<f4', 'shape': (-2,)}"), 10 + 27, "an extent is negative");
  check_refused(npy_header("|V4", "(1,)") + "....", 10 + 10, "elements '|V4' cannot be read");
}

TEST_CASE("an array larger than its file is refused before it is allocated", "[input][npy][host]") {
  const auto check = [](std::string_view descr, std::string_view shape, const std::string& data,
                        std::string_view reason) {
    const std::string header = npy_header(descr, shape);
    check_refused(header + data, header.size(), std::string(reason));
  };
  check("<i8", "(3,)", i64_data({1, 2}), "more elements than the 2 that the file has bytes for");
  check("<i8", "(2,)", i64_data({1, 2}).substr(1), "more elements than the 1");
  check("<i8", "()", "", "more elements than the 0");
  check("|u1", "(1000000000000,)", "x", "more elements than the 1");
  check("<i8", "(4294967296, 4294967296)", "12345678", "more elements than the 1");
  check("<i8", "(9223372036854775807, 9223372036854775807, 3)", "12345678", "more elements than the 1");
  check("<i8", "(0, 9223372036854775807, 9223372036854775807)", "",
        "whose size in bytes does not fit 64 bits. ");
  check("<i8", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", i64_data({1}), "rank 9 exceeds the largest, 8");
}
