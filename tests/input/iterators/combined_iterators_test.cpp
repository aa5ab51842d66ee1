#include "input/iterators/combined_iterators.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

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
      says("Dataset::concatenate", "one dataset have the structure {a: *}", "another {b: *}"));
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

TEST_CASE("a choice that is no index, or no integer scalar, is said, and the next one counts",
          "[input][host]") {
  const auto from = [](const TypedDataset<Tensor>& choices) {
    return Dataset::choose_from_datasets<Tensor>({Dataset::range(3), Dataset::range(10, 13)}, choices);
  };
  auto pass = from(Dataset::from_tensor_slices(Tensor::from({1, -1, 2, 0}, Shape(4)))).pipeline()->open();
  CHECK(pass->next()->at(0).item<std::int64_t>() == 10);
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("Dataset::choose_from_datasets: the choice -1", "2 datasets", "from 0 to 1"));
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("the choice 2"));
  CHECK(pass->next()->at(0).item<std::int64_t>() == 0);
  CHECK_FALSE(pass->next());
  CHECK_FALSE(pass->next());
  CHECK_THROWS_MATCHES(from(Dataset::range(4).batch(2)).pipeline()->open()->next(), InvalidArgument,
                       says("a choice is a tensor [2] int64"));
  CHECK_THROWS_MATCHES(from(Dataset::from_tensor_slices(Tensor::zeros({1}))).pipeline()->open()->next(),
                       InvalidArgument, says("a choice is a tensor [] float32"));
}

TEST_CASE("an exception in a chosen dataset leaves the others as they were", "[input][host]") {
  auto pass = Dataset::choose_from_datasets<Tensor>(
                  {Dataset::range(3).map(fails_at(0)), Dataset::range(10, 13)}, Dataset::range(2).repeat())
                  .pipeline()
                  ->open();
  CHECK_THROWS_MATCHES(pass->next(), Error, says("Dataset::map: element 0: bad"));
  CHECK(pass->next()->at(0).item<std::int64_t>() == 10);
  CHECK(pass->next()->at(0).item<std::int64_t>() == 1);
}

TEST_CASE("elements of other keys are not chosen from", "[input][host]") {
  auto pass =
      Dataset::choose_from_datasets<Keyed>(
          {Dataset::range(2).map(with_key("a")), Dataset::range(2).map(with_key("b"))}, Dataset::range(2))
          .pipeline()
          ->open();
  CHECK(pass->next());
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("{a: *}", "{b: *}"));
}

TEST_CASE("elements of other keys are refused at each choice, and beside keys that an earlier pass saw",
          "[input][host]") {
  const auto a = Dataset::range(3).map(with_key("a")), b = Dataset::range(3).map(with_key("b"));
  const auto from = [&](const Values& choices) {
    return Dataset::choose_from_datasets<Keyed>({a, b}, Dataset::from_tensor_slices(test::vector_of(choices)))
        .pipeline()
        ->open();
  };
  auto pass = from({0, 1, 1});
  CHECK(pass->next());
  for (int i = 0; i < 2; ++i) CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("{a: *}", "{b: *}"));
  CHECK_THROWS_MATCHES(from({1})->next(), InvalidArgument, says("{a: *}", "{b: *}"));
}

TEST_CASE("samples follow the weights, and the seed", "[input][host]") {
  const auto sample = [](std::optional<std::uint64_t> seed) {
    return Dataset::sample_from_datasets<Tensor>(
        {Dataset::range(1).repeat(), Dataset::range(1, 2).repeat(), Dataset::range(2, 3).repeat()}, {1, 0, 3},
        seed);
  };
  const auto dataset = sample(7);
  const Values first = flat_elements(dataset.take(4000));
  CHECK(first == flat_elements(sample(7).take(4000)));
  CHECK(flat_elements(dataset.take(4000)) != first);  // another pass
  CHECK(flat_elements(sample(8).take(4000)) != first);
  CHECK(flat_elements(sample({}).take(4000)) != flat_elements(sample({}).take(4000)));
  const auto count = [&](std::int64_t value) { return std::ranges::count(first, value); };
  CHECK(count(1) == 0);
  CHECK(std::abs(count(0) - 1000) < 140);  // five standard deviations
}

TEST_CASE("a dataset that has ended is sampled in vain", "[input][host]") {
  const std::vector<TypedDataset<Tensor>> datasets{Dataset::range(2), Dataset::range(100, 150)};
  Values all = flat_elements(Dataset::sample_from_datasets(datasets, {0.9, 0.1}, 1));
  CHECK(all.size() == 52);
  CHECK(std::ranges::count_if(all, [](std::int64_t x) { return x < 100; }) == 2);
  CHECK(flat_elements(Dataset::sample_from_datasets(datasets, {0.9, 0.1}, 1, true)).size() < 52);
}
