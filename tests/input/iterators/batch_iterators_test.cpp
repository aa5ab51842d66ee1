#include <limits>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/memory.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_elements;
using test::flat_elements;
using test::says;
using test::sequence;
using test::Values;

TEST_CASE("a batch stacks elements, and the last one may be smaller", "[input][host]") {
  CHECK(all_elements(Dataset::range(5).batch(2)) == std::vector<Values>{{0, 1}, {2, 3}, {4}});
  CHECK(all_elements(Dataset::range(5).batch(2, true)) == std::vector<Values>{{0, 1}, {2, 3}});
  CHECK(all_elements(Dataset::range(4).batch(2, true)) == std::vector<Values>{{0, 1}, {2, 3}});
  CHECK(all_elements(Dataset::range(3).batch(std::numeric_limits<std::int64_t>::max())) ==
        std::vector<Values>{{0, 1, 2}});
  CHECK(all_elements(Dataset::range(3).batch(4, true)).empty());
  CHECK(all_elements(Dataset::range(0).batch(4)).empty());
}

TEST_CASE("a batch has the element's shape behind its own axis", "[input][host]") {
  const Tensor images = Tensor::from(test::sequence(0, 24), {4, 2, 3}),
               labels = test::vector_of({0, 1, 2, 3});
  const auto batch = Dataset::from_tensor_slices(images, labels).skip(1).batch(2).pipeline()->open()->next();
  CHECK(batch->at(0).shape() == Shape(2, 2, 3));
  CHECK(batch->at(0).to_vector<std::int64_t>() == sequence(6, 18));
  CHECK(batch->at(1).to_vector<std::int64_t>() == Values{1, 2});
}

TEST_CASE("a batch runs over the end of a pass", "[input][host]") {
  CHECK(all_elements(Dataset::range(3).repeat(2).batch(4)) == std::vector<Values>{{0, 1, 2, 0}, {1, 2}});
}

TEST_CASE("batches are batched again", "[input][host]") {
  const Dataset dataset = Dataset::range(8).batch(2).batch(3);
  CHECK(all_elements(dataset) == std::vector<Values>{{0, 1, 2, 3, 4, 5}, {6, 7}});
  CHECK(dataset.pipeline()->open()->next()->at(0).shape() == Shape(3, 2));
  CHECK(all_elements(Dataset::range(8).batch(2).batch(3, true)) == std::vector<Values>{{0, 1, 2, 3, 4, 5}});
}

TEST_CASE("elements of different shapes are not batched", "[input][host]") {
  auto pass = Dataset::range(5).batch(2).batch(3).pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("Dataset::batch: cannot stack [1] int64", "on [2] int64"));
}

TEST_CASE("batches reuse memory: later passes allocate nothing", "[input][host]") {
  const Dataset dataset =
      Dataset::from_tensor_slices(Tensor::zeros({100, 64}), Tensor::zeros({100})).shuffle(100).batch(32);
  const auto run_pass = [&] {
    auto pass = dataset.pipeline()->open();
    while (pass->next()) {
    }
  };
  run_pass();
  const std::int64_t before = memory_stats("CPU:0").num_allocations;
  run_pass();
  run_pass();
  CHECK(memory_stats("CPU:0").num_allocations == before);
}

TEST_CASE("where an element throws, those before it are in the next batch", "[input][host]") {
  const bool drop_remainder = GENERATE(false, true);
  const auto dataset = Dataset::range(7)
                           .map([](const Tensor& x) {
                             if (x.item<std::int64_t>() == 4) throw InvalidArgument("bad.");
                             return x;
                           })
                           .batch(3, drop_remainder);
  auto pass = dataset.pipeline()->open();
  CHECK(pass->next()->at(0).to_vector<std::int64_t>() == Values{0, 1, 2});
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("Dataset::map: element 4: bad."));
  CHECK(pass->next()->at(0).to_vector<std::int64_t>() == Values{3, 5, 6});
  CHECK_FALSE(pass->next());
  CHECK_FALSE(pass->next());
}

TEST_CASE("a batch may be said to be larger than memory", "[input][host]") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(flat_elements(Dataset::range(kMost).take(3).batch(kMost)) == Values{0, 1, 2});
  CHECK(flat_elements(Dataset::range(kMost).take(3).batch(kMost, true)).empty());
}

TEST_CASE("windows overlap, or leave elements out, of tables and of any elements", "[input][host]") {
  const auto table = Dataset::range(7);
  const auto made = table.map([](const Tensor& x) { return x; });
  const auto both = [&](const auto& of) {
    CHECK(all_elements(of(table)) == all_elements(of(made)));
    return all_elements(of(made));
  };
  CHECK(both([](const auto& d) { return d.window(3); }) == std::vector<Values>{{0, 1, 2}, {3, 4, 5}, {6}});
  CHECK(both([](const auto& d) { return d.window(3, 2, 2, true); }) ==
        std::vector<Values>{{0, 2, 4}, {2, 4, 6}});
  CHECK(both([](const auto& d) { return d.window(2, 5); }) == std::vector<Values>{{0, 1}, {5, 6}});
  CHECK(both([](const auto& d) { return d.window(1, 100); }) == std::vector<Values>{{0}});
  CHECK(both([](const auto& d) {
          constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
          return d.window(kMost, kMost);
        }) == std::vector<Values>{{0, 1, 2, 3, 4, 5, 6}});
}

TEST_CASE("a window goes on after an element that throws", "[input][host]") {
  const auto dataset = Dataset::range(6)
                           .map([](const Tensor& x) {
                             if (x.item<std::int64_t>() == 2) throw InvalidArgument("bad.");
                             return x;
                           })
                           .window(2, 1);
  auto pass = dataset.pipeline()->open();
  CHECK(pass->next()->at(0).to_vector<std::int64_t>() == Values{0, 1});
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument, says("Dataset::map: element 2: bad."));
  CHECK(pass->next()->at(0).to_vector<std::int64_t>() == Values{1, 3});
}

TEST_CASE("unbatch gives rows in memory of their own", "[input][host]") {
  const auto rows = Dataset::range(4).batch(3).unbatch();
  auto pass = rows.pipeline()->open();
  Tensor first = pass->next()->at(0);
  CHECK(first.shape() == Shape{});
  *static_cast<std::int64_t*>(first.data()) = 100;
  CHECK(pass->next()->at(0).item<std::int64_t>() == 1);
  CHECK(flat_elements(Dataset::from_tensor_slices(Tensor::zeros({2, 0})).unbatch()).empty());
  CHECK(all_elements(Dataset::range(6).batch(3).batch(2).unbatch()) ==
        std::vector<Values>{{0, 1, 2}, {3, 4, 5}});
}

TEST_CASE("unbatch says which element has no rows, and goes on", "[input][host]") {
  const auto up_to = [](std::int64_t n) { return Tensor::arange(n, DType::i64, Device()); };
  const auto dataset = Dataset::range(3)
                           .map([up_to](const Tensor& x) {
                             const auto n = x.item<std::int64_t>();
                             return std::pair(up_to(n), n == 1 ? x : up_to(n));
                           })
                           .unbatch();
  auto pass = dataset.pipeline()->open();
  CHECK_THROWS_MATCHES(pass->next(), InvalidArgument,
                       says("Dataset::unbatch: element 1: ", "component 1 is a scalar"));
  CHECK(pass->next()->at(0).item<std::int64_t>() == 0);
  CHECK(pass->next()->at(1).item<std::int64_t>() == 1);
  CHECK_FALSE(pass->next());
  CHECK_FALSE(pass->next());
}
