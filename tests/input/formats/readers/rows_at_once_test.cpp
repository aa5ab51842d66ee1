// Rows that a reader gives at once, so that a batch of them needs no tensor for each, are those that it gives
// one by one: with the same exceptions at the same places, and from every saved position on.
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/concat.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/rows/batch.hpp"
#include "support/npy_file.hpp"

using namespace lockstep;
using detail::FlatElement;
using readers::CsvColumn;
using test::TemporaryFile;

namespace rows_at_once_test {

using Texts = std::vector<std::string>;
using Pass = detail::Iterator<FlatElement>;

std::string text_of(const FlatElement& element) {
  std::string text;
  for (const Tensor& leaf : element) {
    text += detail::concat(leaf.shape(), " ", leaf.dtype(), ": ");
    text.append(static_cast<const char*>(leaf.view().data), static_cast<std::size_t>(leaf.nbytes()));
  }
  return text;
}

/// The next element, or what it throws; empty at the end.
std::string next_of(Pass& pass) {
  try {
    const auto element = pass.next();
    return element ? text_of(*element) : "";
  } catch (const Error& error) {
    return detail::concat("throws ", error.what());
  }
}

Texts all_of(Pass& pass) {
  Texts texts;
  while (true) {
    texts.push_back(next_of(pass));
    if (texts.back().empty()) return texts;
  }
}

/// A pass of the pipeline from where another one is.
std::unique_ptr<Pass> resumed(const detail::PipelineHandle& pipeline, Pass& from) {
  detail::PassState saved;
  from.transfer(saved);
  const std::string bytes = saved.take();
  detail::PassState read(bytes);
  auto pass = pipeline->open();
  pass->transfer(read);
  read.expect_end();
  return pass;
}

/// @param stack  makes batches. A filter gives elements one by one.
template <class E, class Stack>
void check(const TypedDataset<E>& rows, const Stack& stack) {
  const auto one_by_one = rows.filter([](const E&) { return true; });
  CHECK(rows.pipeline()->open()->next_rows(1).has_value());
  CHECK_FALSE(one_by_one.pipeline()->open()->next_rows(1).has_value());
  const detail::PipelineHandle at_once = stack(rows).pipeline();
  const Texts expected = all_of(*stack(one_by_one).pipeline()->open());
  CHECK(all_of(*at_once->open()) == expected);
  const std::size_t step = 1 + expected.size() / 20;
  auto pass = at_once->open();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i % step == 0)
      CHECK(all_of(*resumed(at_once, *pass)) ==
            Texts(expected.begin() + static_cast<std::ptrdiff_t>(i), expected.end()));
    CHECK(next_of(*pass) == expected[i]);
  }
}

template <class E>
void check_all(const TypedDataset<E>& rows) {
  const std::int64_t n = GENERATE(1, 3, 64, 5000);
  check(rows, [n](const auto& in) { return in.batch(n); });
  check(rows, [n](const auto& in) { return in.padded_batch(n); });
  check(rows.repeat(2).skip(3).take(2 * n + 1), [n](const auto& in) { return in.batch(n, true); });
  check(rows.ignore_errors(Dataset::forever, [](const Error&, std::int64_t) {}),
        [n](const auto& in) { return in.padded_batch(n); });
}

}  // namespace rows_at_once_test

using rows_at_once_test::check_all;

TEST_CASE("lines that are read at once are those that are read one by one", "[input][host]") {
  std::string even, uneven, large;
  for (int i = 0; i < 100; ++i) even += std::string(7, static_cast<char>('a' + i % 26)) + "\r\n";
  for (int i = 0; i < 100; ++i) uneven += std::string(static_cast<std::size_t>(i * 7 % 23), 'x') + '\n';
  for (int i = 0; i < 9000; ++i) large += std::string(15 + (i > 8000 && i % 1000 == 7 ? 1 : 0), 'y') + '\n';
  const TemporaryFile a(even), b(uneven + "no end"), c(large), none("");
  check_all(Dataset::from_files({a.path(), none.path(), b.path(), "/nowhere", c.path()},
                                readers::lines({.max_line_bytes = 20})));
}

TEST_CASE("CSV records that are read at once are those that are read one by one", "[input][csv][host]") {
  std::string numbers = "1,2,x\n", bad = "x,y\n";
  for (int i = 0; i < 3000; ++i) numbers += detail::concat(i, ",", i % 7, ".5,", i, "\n");
  for (int i = 0; i < 40; ++i)
    bad += i % 9 == 4 ? "1,,\"\"\"t\"\n" : i % 11 == 3 ? "1,2\n" : i % 13 == 5 ? "x,1,t\r\n" : "7,8,text\r\n";
  const TemporaryFile a(numbers), b(bad), c("1,1,a\n2,2,\"b"), d("");
  const std::vector<std::filesystem::path> paths{a.path(), b.path(), c.path(), d.path()};
  check_all(
      Dataset::from_files(paths, readers::csv({.columns = {DType::i64, DType::f32, CsvColumn::text()}})));
  check_all(Dataset::from_files(
      paths,
      readers::csv({.columns = {DType::f32, {DType::f64, 3}}, .header = true, .select_columns = {0, 1}})));
}

TEST_CASE("long texts of CSV records end a block of them", "[input][csv][host]") {
  std::string text;
  for (int i = 0; i < 5; ++i) text += detail::concat(i, ",", std::string(600'000, 'a'), "\n");
  const TemporaryFile file(text);
  const auto records =
      Dataset::from_files({file.path()}, readers::csv({.columns = {DType::i64, CsvColumn::text()}}));
  const auto block = records.pipeline()->open()->next_rows(5);
  CHECK(block->num_rows == 2);
  CHECK(block->leaves[1].ends == std::vector<std::int64_t>{600'000, 1'200'000});
  const auto batch = records.batch(5).pipeline()->open()->next();
  CHECK(batch->at(0).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  CHECK(batch->at(1).shape() == Shape(5, 600'000));
}

TEST_CASE("records and rows that are read at once are those that are read one by one", "[input][host]") {
  std::string bytes;
  for (int i = 0; i < 3 * 70; ++i) bytes += static_cast<char>(i);
  const TemporaryFile a("h" + bytes + "f"), b("hf"), c("h" + bytes + "xf");
  check_all(Dataset::from_files({a.path(), b.path(), c.path(), a.path()},
                                readers::records({.record_bytes = 3, .header_bytes = 1, .footer_bytes = 1})));
  const TemporaryFile row(test::npy_header(">i2", "(35, 3)") + bytes),
      flag(test::npy_header("|b1", "(210,)") + bytes), none(test::npy_header("<i2", "(0, 3)"));
  check_all(Dataset::from_files({row.path(), row.path()}, readers::npy()));
  check_all(Dataset::from_files({flag.path()}, readers::npy()));
}

TEST_CASE("a batch of rows that are read at once is their memory, and no copy", "[input][host]") {
  const TemporaryFile file(std::string(64, 'r'));
  const auto records = Dataset::from_files({file.path()}, readers::records({.record_bytes = 4}));
  const auto pass = records.batch(8).pipeline()->open_batches(detail::IterationKey::next({}));
  const auto batch = pass->next();
  const auto view = (*batch)->view(0, {0, 8}, Device());
  REQUIRE(view);
  CHECK(view->shape() == Shape(8, 4));
  CHECK_FALSE((*pass->next())->view(0, {0, 8}, Device())->is_borrowed());
}
