#include "input/iterators/combined_iterators.hpp"

#include <map>
#include <stdexcept>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>

#include "support/element_functions.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_elements;
using test::fails_at;
using test::flat_elements;
using test::Keyed;
using test::says;
using test::sequence;
using test::Values;
using test::with_key;

TEST_CASE("concatenate gives one dataset's elements, then the other's", "[input][host]") {
  const auto both = Dataset::range(3).concatenate(Dataset::range(10, 12));
  static_assert(std::is_same_v<decltype(both), const TypedDataset<Tensor>>);
  CHECK(flat_elements(both) == Values{0, 1, 2, 10, 11});
  CHECK(flat_elements(both.repeat(2)) == Values{0, 1, 2, 10, 11, 0, 1, 2, 10, 11});
  CHECK(all_elements(both.batch(2)) == std::vector<Values>{{0, 1}, {2, 10}, {11}});
  CHECK(flat_elements(Dataset::range(0).concatenate(Dataset::range(2))) == Values{0, 1});
  CHECK(flat_elements(Dataset::range(2).concatenate(Dataset::range(0))) == Values{0, 1});
  CHECK(flat_elements(Dataset::range(0).concatenate(Dataset::range(0))).empty());
  CHECK(flat_elements(Dataset(Dataset::range(1)).concatenate(Dataset::range(1))) == Values{0, 0});
}

TEST_CASE("concatenated elements have one structure", "[input][host]") {
  const auto a = Dataset::range(2).map(with_key("a")), b = Dataset::range(2).map(with_key("b"));
  CHECK(flat_elements(a.concatenate(a)) == Values{0, 1, 0, 1});
  auto pass = a.concatenate(b).pipeline()->open();
  CHECK(pass->next());
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(
      pass->next(), InvalidArgument,
      says("Dataset::concatenate", "first dataset have the structure {a: *}", "second {b: *}"));
  const auto none = Dataset::range(0).map(with_key("a"));
  CHECK(flat_elements(none.concatenate(b).map([](const Keyed& keyed) { return keyed.at("b"); })) ==
        Values{0, 1});
}

TEST_CASE("zip ends with the shortest", "[input][host]") {
  const auto zipped = Dataset::zip(Dataset::range(3), Dataset::range(10, 20));
  static_assert(std::is_same_v<decltype(zipped), const TypedDataset<std::tuple<Tensor, Tensor>>>);
  CHECK(flat_elements(zipped, 0) == Values{0, 1, 2});
  CHECK(flat_elements(zipped, 1) == Values{10, 11, 12});
  CHECK(flat_elements(zipped.map([](const Tensor& x, const Tensor& y) { return x + y; })) ==
        Values{10, 12, 14});
  CHECK(flat_elements(Dataset::zip(Dataset::range(0), Dataset::range(3))).empty());
  CHECK(flat_elements(Dataset::zip(Dataset::range(3).repeat(), Dataset::range(5)), 0) ==
        Values{0, 1, 2, 0, 1});
  CHECK(flat_elements(Dataset::zip(Dataset::range(3))) == Values{0, 1, 2});
  auto pass = Dataset::zip(Dataset::range(2), Dataset::range(1)).pipeline()->open();
  CHECK(pass->next());
  CHECK_FALSE(pass->next());
  CHECK_FALSE(pass->next());
}

TEST_CASE("zip keeps nests, also those whose keys are not known at first", "[input][host]") {
  const auto nested = Dataset::zip(Dataset::zip(Dataset::range(2), Dataset::range(9)),
                                   Dataset::range(5, 9).map(with_key("k")));
  CHECK(flat_elements(nested.map([](const std::tuple<Tensor, Tensor>& pair, const Keyed& keyed) {
          return std::get<0>(pair) + std::get<1>(pair) + keyed.at("k");
        })) == Values{5, 8});
}

TEST_CASE("an exception in one of zip's datasets leaves them in step", "[input][host]") {
  auto pass = Dataset::zip(Dataset::range(3).map(fails_at(1)), Dataset::range(3)).pipeline()->open();
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 1: bad"));
  const auto element = pass->next();
  CHECK(element->at(0).item<std::int64_t>() == 2);
  CHECK(element->at(1).item<std::int64_t>() == 2);
  CHECK_FALSE(pass->next());
}

TEST_CASE("an exception in one of zip's datasets is thrown where another ends", "[input][host]") {
  auto pass = Dataset::zip(Dataset::range(5).map(fails_at(2)), Dataset::range(2)).pipeline()->open();
  CHECK(pass->next());
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 2: bad"));
  CHECK_FALSE(pass->next());
}
