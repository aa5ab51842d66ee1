#include <filesystem>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/npy.hpp>
#include <lockstep/input/readers.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"
#include "support/zip_file.hpp"

using namespace lockstep;
using test::bytes_of;
using test::npy_header;
using test::says;
using test::TemporaryFile;
using test::Values;

namespace numpy_readers_test {
using Arrays = std::map<std::string, Tensor>;

/// A .npy file of i64 numbers.
std::string npy(const Values& values, const std::string& shape) {
  std::string bytes = npy_header("<i8", shape);
  for (const std::int64_t value : values) bytes += bytes_of(value);
  return bytes;
}
}  // namespace numpy_readers_test

using numpy_readers_test::Arrays;
using numpy_readers_test::npy;

TEST_CASE("npy gives an array's rows", "[input][host]") {
  const auto rows = Dataset::from_files({std::filesystem::path(LOCKSTEP_DATA) / "digits_images.npy",
                                         std::filesystem::path(LOCKSTEP_DATA) / "digits_images.npy"},
                                        readers::npy());
  auto pass = rows.batch(1797).pipeline()->open();
  const Tensor images = load_npy(std::filesystem::path(LOCKSTEP_DATA) / "digits_images.npy");
  for (int file = 0; file < 2; ++file) {
    const auto batch = pass->next();
    CHECK(batch->at(0).shape() == Shape(1797, 8, 8));
    CHECK(batch->at(0).to_vector<std::uint8_t>() == images.to_vector<std::uint8_t>());
  }
  CHECK_FALSE(pass->next());
}

TEST_CASE("npy refuses scalars and what is no such file", "[input][host]") {
  const TemporaryFile scalar(test::npy_header("<i8", "()") + test::bytes_of(std::int64_t{1}));
  const TemporaryFile empty(test::npy_header("<i8", "(0, 2)"));
  const auto rows = Dataset::from_files({scalar.path(), empty.path(), "/no/such.npy"}, readers::npy());
  auto pass = rows.pipeline()->open();
  CHECK_THROWS_MATCHES(
      pass->next(), InvalidArgument,
      says("Dataset::from_files: element 0: readers::npy: \"" + scalar.path().string() + "\" is a scalar"));
  CHECK_THROWS_MATCHES(pass->next(), NotFound,
                       says("Dataset::from_files: element 1: readers::npy: \"/no/such.npy\" cannot"));
  CHECK_FALSE(pass->next());
}

TEST_CASE("npy refuses rows without elements, of which a small file could have any number", "[input][host]") {
  const TemporaryFile file(npy_header("<i8", "(9223372036854775807, 0)"));
  CHECK_THROWS_MATCHES(readers::npy()(file.path()), InvalidArgument,
                       says("readers::npy: ", file.path().string(), "has rows without elements"));
}

TEST_CASE("npz gives the arrays' rows by name", "[input][host]") {
  const TemporaryFile file(
      test::zip_archive({{"y.npy", npy({7, 8}, "(2,)"), true}, {"x.npy", npy({1, 2, 3, 4}, "(2, 2)")}}));
  const auto dataset = Dataset::from_files({file.path(), file.path()}, readers::npz());
  static_assert(std::is_same_v<decltype(dataset), const TypedDataset<Arrays>>);
  CHECK(test::all_elements(dataset, 0) == std::vector<Values>{{1, 2}, {3, 4}, {1, 2}, {3, 4}});
  CHECK(test::flat_elements(dataset, 1) == Values{7, 8, 7, 8});
  const auto sums = dataset.map([](const Arrays& row) { return row.at("x") + row.at("y"); });
  CHECK(test::all_elements(sums.take(2)) == std::vector<Values>{{8, 9}, {11, 12}});
}

TEST_CASE("npz reads the arrays that are named", "[input][host]") {
  const TemporaryFile file(test::zip_archive(
      {{"x.npy", npy({1, 2}, "(2,)")}, {"n.npy", npy({5}, "()")}, {"z.npy", npy({1, 2, 3}, "(3,)")}}));
  const auto named = Dataset::from_files({file.path()}, readers::npz({"x"}));
  CHECK(test::flat_elements(named) == Values{1, 2});
  CHECK_THROWS_MATCHES(readers::npz()(file.path()), InvalidArgument,
                       says("readers::npz: ", file.path().string(), "array 'n' is a scalar"));
  CHECK_THROWS_MATCHES(readers::npz({"x", "z"})(file.path()), InvalidArgument,
                       says("array 'z', [3] int64", "has another number of rows than 'x', [2] int64"));
  CHECK_THROWS_MATCHES(readers::npz({"w"})(file.path()), NotFound,
                       says("readers::npz: ", "has no array 'w'"));
  const TemporaryFile empty(test::zip_archive({}));
  CHECK_THROWS_MATCHES(readers::npz()(empty.path()), InvalidArgument,
                       says("readers::npz: ", empty.path().string(), "has no arrays"));
  const TemporaryFile hollow(test::zip_archive({{"x.npy", npy({}, "(3, 0)")}}));
  CHECK_THROWS_MATCHES(readers::npz()(hollow.path()), InvalidArgument,
                       says("array 'x', [3, 0] int64", "has rows without elements"));
}
