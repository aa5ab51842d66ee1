#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/readers.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"
#include "support/temporary_directory.hpp"

using namespace lockstep;
using test::flat_elements;
using test::says;
using test::ScopedLogSink;
using test::Values;

namespace ignore_errors_test {

TypedDataset<Tensor> without_multiples_of_three(std::int64_t n) {
  return Dataset::range(n).map([](const Tensor& x) {
    if (x.item<std::int64_t>() % 3 == 0) throw InvalidArgument("fizz");
    return x;
  });
}

}  // namespace ignore_errors_test

using ignore_errors_test::without_multiples_of_three;

TEST_CASE("elements that throw are left out, and the log says so", "[input][host]") {
  std::vector<std::string> lines;
  const ScopedLogSink sink([&lines](std::string_view line) { lines.emplace_back(line); });
  CHECK(flat_elements(without_multiples_of_three(8).ignore_errors()) == Values{1, 2, 4, 5, 7});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "Dataset::ignore_errors: an element is left out: Dataset::map: element 0: fizz");
  CHECK(lines[1] == "Dataset::ignore_errors: 3 elements were left out");
  lines.clear();
  CHECK(flat_elements(Dataset::range(3).ignore_errors()) == Values{0, 1, 2});
  CHECK(lines.empty());
}

TEST_CASE("each error that is left out is reported, with its number", "[input][host]") {
  std::vector<std::string> reports;
  const ScopedLogSink sink([](std::string_view line) { FAIL("logged: " << line); });
  const auto dataset = without_multiples_of_three(5).ignore_errors(
      Dataset::forever, [&reports](const Error& error, std::int64_t number) {
        reports.push_back(std::to_string(number) + " " + error.what());
      });
  CHECK(flat_elements(dataset) == Values{1, 2, 4});
  CHECK(reports ==
        std::vector<std::string>{"1 Dataset::map: element 0: fizz", "2 Dataset::map: element 3: fizz"});
}

TEST_CASE("more errors than are allowed throw", "[input][host]") {
  const ScopedLogSink sink([](std::string_view) {});
  const auto dataset = without_multiples_of_three(12).ignore_errors(2);
  for (int pass_number = 0; pass_number < 2; ++pass_number) {  // each pass counts its own
    auto pass = dataset.pipeline()->open();
    for (const std::int64_t expected : {1, 2, 4, 5})
      CHECK(pass->next()->at(0).item<std::int64_t>() == expected);
    CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("Dataset::map: element 6: fizz"));
    CHECK(pass->next()->at(0).item<std::int64_t>() == 7);
    CHECK(pass->next()->at(0).item<std::int64_t>() == 8);
    CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("element 9"));
  }
  CHECK_THROWS_MATCHES(dataset.ignore_errors(-2), InvalidArgument,
                       says("Dataset::ignore_errors: at most -2 errors"));
}

TEST_CASE("what is wrong with the calls is not left out", "[input][host]") {
  const auto hint = Dataset::range(3).shard(Dataset::shard_hint, Dataset::shard_hint).ignore_errors();
  CHECK_THROWS_MATCHES(hint.pipeline()->open()->next(), ContextError, says("the shard is not known yet"));
  const auto full = Dataset::range(3).map([](const Tensor& x) {
    if (x.item<std::int64_t>() == 1) throw OutOfMemory("full");
    return x;
  });
  auto pass = full.ignore_errors().pipeline()->open();
  CHECK(pass->next());
  CHECK_THROWS_AS(pass->next(), OutOfMemory);
}

TEST_CASE("errors of batches and of shards are left out, too", "[input][host]") {
  const ScopedLogSink sink([](std::string_view) {});
  CHECK(flat_elements(without_multiples_of_three(8).batch(2).ignore_errors()) == Values{1, 2, 4, 5, 7});
  CHECK(flat_elements(without_multiples_of_three(8).ignore_errors().shard(2, 1)) == Values{2, 5});
}

TEST_CASE("a share that cannot be is not taken for an element's error", "[input][host]") {
  const ScopedLogSink sink([](std::string_view) {});
  const auto share_of = [](const TypedDataset<Tensor>& dataset, AutoShardPolicy policy) {
    return auto_shard(dataset.ignore_errors(), InputContext(2, 0, 2), policy).pipeline()->open();
  };
  const auto endless = share_of(Dataset::range(3).shuffle(3).repeat(), AutoShardPolicy::data);
  CHECK_THROWS_MATCHES(endless->next(), InvalidArgument, says("Dataset::shuffle: there is no seed"));
  const test::TemporaryDirectory folder;
  std::ofstream(folder.path() / "only") << "line";
  const auto files = Dataset::from_files({folder.path() / "only"}, readers::lines());
  CHECK_THROWS_MATCHES(share_of(files, AutoShardPolicy::file)->next(), InvalidArgument,
                       says("auto_shard: 1 files for 2"));
}
