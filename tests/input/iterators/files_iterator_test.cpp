#include "input/iterators/files_iterator.hpp"

#include <stdexcept>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/bad_record.hpp>
#include <lockstep/input/dataset.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::flat_elements;
using test::says;
using test::Values;

namespace files_pass_test {
/// Of path "k": 10 k, 10 k + 1. "throws" has one element, then throws.
auto numbers() {
  return [](const std::filesystem::path& path) {
    if (path == "missing") throw NotFound("not there");
    return [path, next = 0]() mutable -> std::optional<Tensor> {
      if (path == "throws" && next == 1) throw std::runtime_error("torn page");
      if (path == "empty" || next == 2) return std::nullopt;
      return Tensor::scalar(std::int64_t{path == "throws" ? 0 : std::stoi(path.string()) * 10} + next++);
    };
  };
}
}  // namespace files_pass_test

using files_pass_test::numbers;

TEST_CASE("from_files reads one file after the other", "[input][host]") {
  const auto files = Dataset::from_files({"1", "empty", "3", "2"}, numbers());
  static_assert(std::is_same_v<decltype(files), const TypedDataset<Tensor>>);
  for (int pass = 0; pass < 2; ++pass) CHECK(flat_elements(files) == Values{10, 11, 30, 31, 20, 21});
  CHECK(flat_elements(Dataset::from_files({}, numbers()).repeat()).empty());
  CHECK(flat_elements(Dataset::from_files({"empty"}, numbers())).empty());
}

TEST_CASE("a file that cannot be read is named, and the next one read", "[input][host]") {
  auto pass = Dataset::from_files({"1", "throws", "missing", "2"}, numbers()).pipeline()->open();
  for (int i = 0; i < 3; ++i) CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::from_files: \"throws\": element 3: torn page"));
  CHECK_THROWS_MATCHES(pass->next(), NotFound,
                       says("Dataset::from_files: \"missing\": element 4: not there"));
  CHECK(test::all_elements(*pass) == std::vector<Values>{{20}, {21}});
}

TEST_CASE("after a bad record the pass goes on in its file", "[input][host]") {
  const auto reader = [](const std::filesystem::path& path) {
    return [path, next = 0]() mutable -> std::optional<Tensor> {
      if (path == "1" && next++ == 1) throw readers::BadRecord("a bad record");
      if (next > 3) return std::nullopt;
      return Tensor::scalar(std::int64_t{std::stoi(path.string())} * 10 + (path == "1" ? next : next++));
    };
  };
  const auto files = Dataset::from_files({"1", "2"}, reader);
  auto pass = files.pipeline()->open();
  CHECK(pass->next()->at(0).item<std::int64_t>() == 11);
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("Dataset::from_files: \"1\": element 1: a bad record"));
  CHECK(test::all_elements(*pass) == std::vector<Values>{{13}, {20}, {21}, {22}, {23}});
}

TEST_CASE("an element of another structure costs itself only", "[input][host]") {
  const auto reader = [](const std::filesystem::path&) {
    return [next = 0]() mutable -> std::optional<std::vector<Tensor>> {
      if (++next > 3) return std::nullopt;
      return std::vector<Tensor>(next == 2 ? 2 : 1, Tensor::scalar(std::int64_t{next}));
    };
  };
  const auto files = Dataset::from_files({"1", "2"}, reader);
  auto pass = files.pipeline()->open();
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("\"1\": element 1: ", "structure [*, *]", "the first one had [*]"));
  CHECK(pass->next()->at(0).item<std::int64_t>() == 3);
  CHECK(test::all_elements(*files.ignore_errors().pipeline()->open()) ==
        std::vector<Values>{{1}, {3}, {1}, {3}});
}

TEST_CASE("a reader that throws a bad record while it opens a file costs the file", "[input][host]") {
  const auto reader = [](const std::filesystem::path& path) {
    if (path == "1") throw readers::BadRecord("a bad record");
    return [n = 0]() mutable {
      return n++ == 0 ? std::optional(Tensor::scalar(std::int64_t{7})) : std::nullopt;
    };
  };
  auto pass = Dataset::from_files({"1", "2"}, reader).pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("\"1\": element 0: a bad record"));
  CHECK(test::all_elements(*pass) == std::vector<Values>{{7}});
}
