#include "digits/digits_data.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

#include "support/matchers.hpp"

using namespace digits;
using lockstep::test::says;

namespace {

/// A folder with copies of the data, deleted at the end.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() / ("lockstep_digits_" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(path_);
    for (const char* file : {"digits_images.npy", "digits_labels.npy"})
      std::filesystem::copy_file(std::filesystem::path(LOCKSTEP_DIGITS_DATA) / file, path_ / file,
                                 std::filesystem::copy_options::overwrite_existing);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string images() const { return path_ / "digits_images.npy"; }
  std::string labels() const { return path_ / "digits_labels.npy"; }

 private:
  std::filesystem::path path_;
};

/// An array whose bytes are all `value`.
void write_npy(const std::string& path, const std::string& dtype, const std::string& shape,
               std::size_t size_bytes, char value = 0) {
  std::string header = "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header
       << std::string(size_bytes, value);
}

}  // namespace

TEST_CASE("load_digits keeps every fifth row for testing", "[examples]") {
  const DigitsData data = load_digits(LOCKSTEP_DIGITS_DATA);
  CHECK(data.training.images.shape() == ls::Shape(1438, 64));
  CHECK(data.training.labels.shape() == ls::Shape(1438));
  CHECK(data.test.images.shape() == ls::Shape(359, 64));
  CHECK(data.test.labels.shape() == ls::Shape(359));

  const ls::Tensor images = ls::load_npy(std::filesystem::path(LOCKSTEP_DIGITS_DATA) / "digits_images.npy");
  const ls::Tensor labels = ls::load_npy(std::filesystem::path(LOCKSTEP_DIGITS_DATA) / "digits_labels.npy");
  std::int64_t next[2] = {0, 0};
  bool right = true;
  for (std::int64_t row = 0; row < 1797; ++row) {
    const Examples& part = row % 5 == 4 ? data.test : data.training;
    const std::int64_t i = next[row % 5 == 4]++;
    const auto pixels = (part.images.slice(i, i + 1) * 16).cast(ls::DType::u8);
    right =
        right && pixels.to_vector<std::uint8_t>() == images.slice(row, row + 1).to_vector<std::uint8_t>() &&
        part.labels.slice(i, i + 1).item<std::int64_t>() == labels.slice(row, row + 1).item<std::uint8_t>();
  }
  CHECK(right);
}

TEST_CASE("load_digits says which file is not there", "[examples]") {
  CHECK_THROWS_MATCHES(load_digits("/nowhere"), ls::NotFound,
                       says("/nowhere/digits_images.npy", "cannot be opened"));
  const Folder folder;
  std::filesystem::remove(folder.labels());
  CHECK_THROWS_MATCHES(load_digits(folder.path()), ls::NotFound, says(folder.labels()));
}

TEST_CASE("load_digits says what is wrong with a file", "[examples]") {
  const Folder folder;
  const auto load = [&] { return load_digits(folder.path()); };

  std::filesystem::resize_file(folder.images(), 5000);
  CHECK_THROWS_MATCHES(load(), ls::InvalidArgument,
                       says(folder.images(), "more elements than", "file has bytes for"));
  std::ofstream(folder.images()) << "not an array";
  CHECK_THROWS_MATCHES(load(), ls::InvalidArgument, says(folder.images()));
  write_npy(folder.images(), "<f4", "(10, 8, 8)", 10 * 64 * 4);
  CHECK_THROWS_MATCHES(load(), ls::InvalidArgument, says(folder.images(), "float32", "uint8"));
  write_npy(folder.images(), "|u1", "(4, 8, 8)", 4 * 64);
  CHECK_THROWS_MATCHES(load(), ls::InvalidArgument, says(folder.images(), "[4, 8, 8]", "at least 5 rows"));
  write_npy(folder.images(), "|u1", "()", 1);
  CHECK_THROWS_MATCHES(load(), ls::InvalidArgument, says(folder.images(), "at least 5 rows"));
  write_npy(folder.images(), "|u1", "(10, 8, 8)", 10 * 64, 17);
  CHECK_THROWS_MATCHES(load(), ls::InvalidArgument, says(folder.images(), "values above 16"));
  write_npy(folder.images(), "|u1", "(10, 8, 7)", 10 * 56);
  CHECK_THROWS_MATCHES(load(), ls::InvalidArgument, says(folder.images(), "[10, 8, 7]", "[rows, 8, 8]"));

  write_npy(folder.images(), "|u1", "(10, 8, 8)", 10 * 64, 16);
  CHECK_THROWS_MATCHES(load(), ls::InvalidArgument, says(folder.labels(), "[1797]", "10 images"));
  write_npy(folder.labels(), "|u1", "(10,)", 10, 10);
  CHECK_THROWS_MATCHES(load(), ls::InvalidArgument, says(folder.labels(), "values above 9"));
  write_npy(folder.labels(), "|u1", "(10,)", 10, 9);
  CHECK(load().test.num_rows() == 2);
}
