#include "input/iterators/interleave_iterator.hpp"

#include <algorithm>
#include <future>
#include <map>
#include <stdexcept>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>

#include "support/element_functions.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_elements;
using test::fails_at;
using test::flat_elements;
using test::says;
using test::sequence;
using test::Values;
using test::with_key;

namespace interleave_pass_test {
/// x, length times.
auto repeated(std::int64_t length) {
  return [length](const Tensor& x) { return Dataset::from_tensor_slices(x.reshape({1})).repeat(length); };
}

/// The 100 x + i, of a number of i that depends on x; some take their time.
TypedDataset<Tensor> uneven(const Tensor& x) {
  const std::int64_t first = 100 * x.item<std::int64_t>(), length = 3 + x.item<std::int64_t>() % 4;
  return Dataset::range(first, first + length).map([](const Tensor& y) {
    if (y.item<std::int64_t>() % 3 == 0)
      for (int i = 0; i < 10; ++i) std::this_thread::yield();
    return y;
  });
}
}  // namespace interleave_pass_test

using interleave_pass_test::repeated;
using interleave_pass_test::uneven;

TEST_CASE("interleave takes blocks of several datasets in turn", "[input][host]") {
  // The example of TensorFlow's documentation of Dataset.interleave.
  const auto blocks = Dataset::range(1, 6).interleave(repeated(6), 2, 4);
  static_assert(std::is_same_v<decltype(blocks), const TypedDataset<Tensor>>);
  const Values expected{1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3,
                        3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5};
  CHECK(flat_elements(blocks) == expected);
  CHECK(flat_elements(blocks) == expected);
  CHECK(flat_elements(Dataset::range(3).interleave(repeated(2), 1)) == Values{0, 0, 1, 1, 2, 2});
  CHECK(flat_elements(Dataset::range(3).interleave(repeated(2), 3)) == Values{0, 1, 2, 0, 1, 2});
  CHECK(flat_elements(Dataset::range(3).interleave(repeated(2), INT64_MAX, INT64_MAX)) ==
        Values{0, 0, 1, 1, 2, 2});
  CHECK(flat_elements(Dataset::range(3).interleave(repeated(2), INT64_MAX)) == Values{0, 1, 2, 0, 1, 2});
}

TEST_CASE("interleave of nothing, and of datasets without elements, is nothing", "[input][host]") {
  CHECK(flat_elements(Dataset::range(0).interleave(repeated(2), 3)).empty());
  CHECK(flat_elements(Dataset::range(7).interleave(repeated(0), 3)).empty());
  const auto some = [](const Tensor& x) { return Dataset::range(x.item<std::int64_t>() % 2); };
  CHECK(flat_elements(Dataset::range(7).interleave(some, 2)) == Values{0, 0, 0});
}

TEST_CASE("interleaved nests have one structure", "[input][host]") {
  const auto keyed = [](const Tensor& x) {
    return Dataset::range(2).map(with_key(x.item<std::int64_t>() == 0 ? "a" : "b"));
  };
  CHECK(flat_elements(Dataset::range(1).interleave(keyed, 2)) == Values{0, 1});
  auto pass = Dataset::range(2).interleave(keyed, 1).pipeline()->open();
  CHECK(pass->next());
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("Dataset::interleave", "{b: *}", "{a: *}"));
}

TEST_CASE("an exception in interleave's function or datasets leaves out an element", "[input][host]") {
  const auto opens = [](const Tensor& x) {
    fails_at(1)(x);
    return Dataset::range(2);
  };
  auto pass = Dataset::range(3).interleave(opens, 1).pipeline()->open();
  CHECK(pass->next());
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::interleave: element 1: bad"));
  CHECK(all_elements(*pass) == std::vector<Values>{{0}, {1}});

  pass = Dataset::range(1)
             .interleave([](const Tensor&) { return Dataset::range(3).map(fails_at(1)); }, 1)
             .pipeline()
             ->open();
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 1: bad"));
  CHECK(all_elements(*pass) == std::vector<Values>{{2}});
}

TEST_CASE("interleave on several threads gives what it gives on one", "[input][host]") {
  const std::int64_t cycle = GENERATE(1, 2, 5), block = GENERATE(1, 2);
  const auto numbers = Dataset::range(7);
  const Values expected = flat_elements(numbers.interleave(uneven, cycle, block));
  CHECK(flat_elements(numbers.interleave(uneven, cycle, block, {.num_parallel_calls = 3})) == expected);
  for (int i = 0; i < 5; ++i) {
    auto pass =
        numbers.repeat().interleave(uneven, cycle, block, {.num_parallel_calls = 3}).pipeline()->open();
    for (int k = 0; k < 4 * i; ++k) CHECK(pass->next());
  }
}

TEST_CASE("interleave that need not keep the order gives every element once", "[input][host]") {
  const std::int64_t cycle = GENERATE(1, 2, 5), block = GENERATE(1, 2);
  const auto numbers = Dataset::range(7);
  Values expected = flat_elements(numbers.interleave(uneven, cycle, block));
  Values values = flat_elements(
      numbers.interleave(uneven, cycle, block, {.num_parallel_calls = 3, .deterministic = false}));
  for (Values* each : {&expected, &values}) std::sort(each->begin(), each->end());
  CHECK(values == expected);
  for (int i = 0; i < 5; ++i) {
    auto pass = numbers.repeat()
                    .interleave(uneven, cycle, block, {.num_parallel_calls = 3, .deterministic = false})
                    .prefetch(1)
                    .pipeline()
                    ->open();
    for (int k = 0; k < 4 * i; ++k) CHECK(pass->next());
  }
}

TEST_CASE("a dataset that has nothing ready is passed over, where the order is not kept", "[input][host]") {
  std::promise<void> others_were_taken;
  const std::shared_future<void> waits = others_were_taken.get_future().share();
  const auto datasets = [waits](const Tensor& x) {
    const std::int64_t first = 10 * x.item<std::int64_t>();
    return Dataset::range(first, first + 3).map([waits](const Tensor& y) {
      if (y.item<std::int64_t>() == 0) waits.wait();
      return y;
    });
  };
  auto pass = Dataset::range(3)
                  .interleave(datasets, 2, 1, {.num_parallel_calls = 2, .deterministic = false})
                  .pipeline()
                  ->open();
  for (const std::int64_t expected : {10, 11, 12, 20, 21, 22})
    CHECK(pass->next()->at(0).item<std::int64_t>() == expected);
  others_were_taken.set_value();
  CHECK(all_elements(*pass) == std::vector<Values>{{0}, {1}, {2}});
}

TEST_CASE("an interleaving with an automatic number of calls gives what one thread gives", "[input][host]") {
  const ParallelOptions automatic{.num_parallel_calls = ParallelOptions::automatic};
  for (const std::int64_t cycle : {1, 3, 40})
    CHECK(flat_elements(Dataset::range(40).interleave(uneven, cycle, 2, automatic)) ==
          flat_elements(Dataset::range(40).interleave(uneven, cycle, 2)));
  Values any = flat_elements(Dataset::range(40).interleave(
      uneven, 3, 2, {.num_parallel_calls = ParallelOptions::automatic, .deterministic = false}));
  Values all = flat_elements(Dataset::range(40).interleave(uneven, 3, 2));
  std::sort(any.begin(), any.end());
  std::sort(all.begin(), all.end());
  CHECK(any == all);
}

TEST_CASE(
    "an interleaving gets threads for the datasets that have none, up to the most and the cycle's length",
    "[input][host]") {
  const detail::PipelineHandle range = Dataset::range(4).pipeline();
  const auto make = [](detail::FlatElement&& element, std::int64_t) {
    const std::int64_t first = 1000 * element[0].item<std::int64_t>();
    const auto part = Dataset::range(first, first + 60).pipeline();
    return detail::OpenedPart{part, part->open()};
  };
  // Elements of a dataset without a thread are always waited for: a third of them is more than a quarter.
  for (const std::int64_t most : {1, 2, 8}) {
    detail::InterleaveIterator pass(range->open(), make, 3, 1,
                                    {.num_parallel_calls = ParallelOptions::automatic}, "a test", most);
    std::int64_t num_elements = 0, most_threads = pass.num_threads();
    CHECK(most_threads == 1);
    for (; pass.next(); ++num_elements) most_threads = std::max(most_threads, pass.num_threads());
    CHECK(num_elements == 240);
    CHECK(most_threads == std::min<std::int64_t>(most, 3));
  }
}
