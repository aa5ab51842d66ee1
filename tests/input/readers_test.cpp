#include <filesystem>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/npy.hpp>
#include <lockstep/input/readers.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"

using namespace lockstep;
using test::all_elements;
using test::says;
using test::TemporaryFile;
using test::Values;

namespace readers_test {
std::vector<std::string> lines_of(const std::string& text) {
  const TemporaryFile file(text);
  readers::LineGenerator generator = readers::lines()(file.path());
  std::vector<std::string> lines;
  while (const auto line = generator()) lines.push_back(readers::text(*line));
  CHECK_FALSE(generator());
  return lines;
}
}  // namespace readers_test

using readers_test::lines_of;

TEST_CASE("lines end with a newline, a carriage return before it, or the file", "[input][host]") {
  using Lines = std::vector<std::string>;
  CHECK(lines_of("").empty());
  CHECK(lines_of("one") == Lines{"one"});
  CHECK(lines_of("one\n") == Lines{"one"});
  CHECK(lines_of("one\n\nthree") == Lines{"one", "", "three"});
  CHECK(lines_of("one\r\ntwo\rstill\r\n") == Lines{"one", "two\rstill"});
  CHECK(lines_of("\n") == Lines{""});
  CHECK(lines_of("\xc3\xa9\n") == Lines{"\xc3\xa9"});
}

TEST_CASE("a line is a tensor of bytes, which a function reads", "[input][host]") {
  const TemporaryFile file("3\n41\n");
  const auto lines = Dataset::from_files({file.path()}, readers::lines());
  static_assert(std::is_same_v<decltype(lines), const TypedDataset<Tensor>>);
  const auto element = lines.pipeline()->open()->next();
  CHECK(element->at(0).dtype() == DType::u8);
  CHECK(element->at(0).shape() == Shape(1));
  const auto numbers = lines.map(
      [](const Tensor& line) { return Tensor::scalar(std::int64_t{std::stoi(readers::text(line))}); });
  CHECK(all_elements(numbers.batch(2)) == std::vector<Values>{{3, 41}});
  CHECK_THROWS_AS(readers::text(Tensor::zeros({2})), InvalidArgument);
}

TEST_CASE("a text file that is not there, or is none, is refused", "[input][host]") {
  CHECK_THROWS_MATCHES(readers::lines()("/no/such/file.txt"), NotFound,
                       says("readers::lines: \"/no/such/file.txt\" cannot be opened", "No such file"));
  readers::LineGenerator directory = readers::lines()(std::filesystem::temp_directory_path());
  CHECK_THROWS_MATCHES(directory(), Error, says("readers::lines: ", "cannot be read to its end"));
}

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
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("Dataset::from_files: ", "element 0: readers::npy: ", "is a scalar"));
  CHECK_THROWS_MATCHES(pass->next(), NotFound, says("/no/such.npy", "element 1"));
  CHECK_FALSE(pass->next());
}
