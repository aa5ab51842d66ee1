#include "input/iterators/cache_iterator.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>

#include "support/captured_stderr.hpp"
#include "support/input.hpp"

using namespace lockstep;
using test::all_elements;
using test::flat_elements;
using test::sequence;
using test::Values;

namespace cache_pass_test {
/// 0, 1, … below 5, counted as they are made.
TypedDataset<Tensor> counted(const std::shared_ptr<int>& count) {
  return Dataset::range(5).map([count](const Tensor& x) {
    ++*count;
    return x;
  });
}
}  // namespace cache_pass_test

using cache_pass_test::counted;

TEST_CASE("a cache reads its input once", "[input][host]") {
  const auto count = std::make_shared<int>(0);
  const auto cache = counted(count).cache();
  const Dataset copy = cache;
  CHECK(*count == 0);
  CHECK(flat_elements(cache) == sequence(0, 5));
  CHECK(*count == 5);
  CHECK(flat_elements(cache) == sequence(0, 5));
  CHECK(flat_elements(copy.repeat(2).batch(2)) == Values{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
  CHECK(*count == 5);
  CHECK(flat_elements(Dataset::range(0).cache().repeat()).empty());
}

TEST_CASE("a cache keeps nothing of a pass that does not end", "[input][host]") {
  const auto count = std::make_shared<int>(0);
  const auto cache = counted(count).cache();
  const std::string told = test::captured_stderr([&] {
    CHECK(flat_elements(cache.take(0)).empty());
    CHECK(flat_elements(cache.take(3)) == sequence(0, 3));
    CHECK(flat_elements(cache.take(3)) == sequence(0, 3));
  });
  CHECK(
      told.starts_with("lockstep: Dataset::cache: a pass was dropped after 3 elements, before it came to "
                       "its end, so they are not kept. Let a pass come to its end, or call take before "
                       "cache."));
  CHECK(std::count(told.begin(), told.end(), '\n') == 1);
  CHECK(flat_elements(cache) == sequence(0, 5));
  CHECK(*count == 11);
  CHECK(test::captured_stderr([&] { flat_elements(cache.take(1)); }).empty());
}

TEST_CASE("a cache keeps nothing of a pass that throws", "[input][host]") {
  const auto fails = std::make_shared<bool>(true);
  const auto cache = Dataset::range(3)
                         .map([fails](const Tensor& x) {
                           if (*fails && x.item<std::int64_t>() == 1) throw std::runtime_error("bad");
                           return x;
                         })
                         .cache();
  auto pass = cache.pipeline()->open();
  CHECK(pass->next());
  CHECK_THROWS_AS(pass->next(), Error);
  CHECK(all_elements(*pass) == std::vector<Values>{{2}});
  *fails = false;
  CHECK(flat_elements(cache) == sequence(0, 3));
}

TEST_CASE("writing to an element does not change the cache", "[input][host]") {
  const auto cache = Dataset::range(3).cache();
  for (int pass = 0; pass < 3; ++pass) {
    auto elements = cache.pipeline()->open();
    for (std::int64_t i = 0; i < 3; ++i) {
      auto element = elements->next();
      CHECK(element->at(0).item<std::int64_t>() == i);
      element->at(0).fill_(9);
    }
    CHECK_FALSE(elements->next());
  }
}

TEST_CASE("a shuffle before a cache is kept, one after it is not", "[input][host]") {
  const auto before = Dataset::range(50).shuffle(50, 1).cache();
  CHECK(flat_elements(before) == flat_elements(before));
  const auto after = Dataset::range(50).cache().shuffle(50, 1);
  CHECK(flat_elements(after) != flat_elements(after));
}
