#include <filesystem>
#include <fstream>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"

using namespace lockstep;
using test::all_elements;
using test::says;
using test::TemporaryFile;
using test::Values;

namespace lines_test {
std::vector<std::string> lines_of(const std::string& text) {
  const TemporaryFile file(text);
  auto generator = readers::lines()(file.path());
  std::vector<std::string> lines;
  while (const auto line = generator()) lines.push_back(readers::text(*line));
  CHECK_FALSE(generator());
  return lines;
}
}  // namespace lines_test

using lines_test::lines_of;

TEST_CASE("lines end with a newline, a carriage return before it, or the file", "[input][host]") {
  using Lines = std::vector<std::string>;
  CHECK(lines_of("").empty());
  CHECK(lines_of("one") == Lines{"one"});
  CHECK(lines_of("one\n") == Lines{"one"});
  CHECK(lines_of("one\n\nthree") == Lines{"one", "", "three"});
  CHECK(lines_of("one\r\ntwo\rstill\r\n") == Lines{"one", "two\rstill"});
  CHECK(lines_of("\n") == Lines{""});
  CHECK(lines_of("one\r\ntwo\r") == Lines{"one", "two\r"});
  CHECK(lines_of("\xc3\xa9\n") == Lines{"\xc3\xa9"});
  for (const std::size_t size : {16'383, 16'384, 16'385, 100'000}) {
    const std::string line(size, 'x');
    CHECK(lines_of(line) == Lines{line});
    CHECK(lines_of(line + "\r\n\n" + line + '\n') == Lines{line, "", line});
  }
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
  for (const std::filesystem::path& path :
       {std::filesystem::temp_directory_path(), std::filesystem::path("/dev/zero")})
    CHECK_THROWS_MATCHES(readers::lines()(path), InvalidArgument,
                         says("readers::lines: ", path.string(), "byte 0: it is not a regular file"));
}

TEST_CASE("a file that is cut short while its lines are read is refused there", "[input][host]") {
  const std::string line(70'000, 'x');
  const TemporaryFile file(line + '\n' + line);
  auto lines = readers::lines()(file.path());
  CHECK(lines());
  std::filesystem::resize_file(file.path(), 135'000);
  CHECK_THROWS_MATCHES(lines(), InvalidArgument, says(", byte 135000: the file was cut short"));
}

namespace lines_test {
/// As the header's documentation has it.
struct Bytes {
  auto operator()(const std::filesystem::path& path) const {
    return [file = std::ifstream(path)]() mutable -> std::optional<Tensor> {
      const int byte = file.get();
      if (byte < 0) return std::nullopt;
      return Tensor::scalar(static_cast<std::uint8_t>(byte), "CPU:0");
    };
  }
};

/// Files of "key=number" lines, by key.
auto settings() {
  return [](const std::filesystem::path& path) {
    return [lines = readers::lines()(path)]() -> std::optional<std::map<std::string, Tensor>> {
      const auto line = lines();
      if (!line) return std::nullopt;
      const std::string text = readers::text(*line);
      const std::size_t at = text.find('=');
      if (at == std::string::npos) throw InvalidArgument("settings: a line without '='");
      return std::map<std::string, Tensor>{
          {text.substr(0, at), Tensor::scalar(std::int64_t{std::stoi(text.substr(at + 1))})}};
    };
  };
}
}  // namespace lines_test

TEST_CASE("a reader of the user's is any callable of the documented form", "[input][host]") {
  const TemporaryFile first("ab"), second("c");
  std::vector<std::uint8_t> bytes;
  const auto dataset = Dataset::from_files({first.path(), second.path()}, lines_test::Bytes());
  for (auto pass = dataset.pipeline()->open(); const auto element = pass->next();)
    bytes.push_back(element->at(0).item<std::uint8_t>());
  CHECK(bytes == std::vector<std::uint8_t>{'a', 'b', 'c'});
}

TEST_CASE("a reader of the user's has elements of any nest, and says what is wrong by throwing",
          "[input][host]") {
  const TemporaryFile bad("x=1\nnothing\nx=2\n"), good("x=3\n");
  const auto dataset = Dataset::from_files({bad.path(), good.path()}, lines_test::settings());
  static_assert(std::is_same_v<decltype(dataset), const TypedDataset<std::map<std::string, Tensor>>>);
  auto pass = dataset.pipeline()->open();
  CHECK(pass->next()->at(0).item<std::int64_t>() == 1);
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("Dataset::from_files: " + ('"' + bad.path().string() + '"'),
                            "element 1: settings: a line without"));
  CHECK(pass->next()->at(0).item<std::int64_t>() == 3);
  CHECK_FALSE(pass->next());
}

TEST_CASE("a line that is too long is passed over, and the next one read", "[input][host]") {
  const std::string large(300'000, 'x');
  for (const std::string& bad : {std::string("four"), large}) {
    const TemporaryFile file("one\r\n" + bad + "\ntwo\n" + bad);
    auto lines = readers::lines({.max_line_bytes = 3})(file.path());
    CHECK(readers::text(*lines()) == "one");
    CHECK_THROWS_MATCHES(lines(), readers::BadRecord,
                         says(file.path().string(),
                              "byte 5: line 2 is longer than max_line_bytes, 3. Pass the path of a text"));
    CHECK(readers::text(*lines()) == "two");
    CHECK_THROWS_MATCHES(lines(), readers::BadRecord, says("line 4 is longer"));
    CHECK_FALSE(lines());
  }
  CHECK_THROWS_MATCHES(readers::lines({.max_line_bytes = -1}), InvalidArgument,
                       says("readers::lines: max_line_bytes is -1. Pass 0 or more."));
}
