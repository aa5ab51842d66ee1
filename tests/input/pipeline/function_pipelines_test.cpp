#include <map>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_steps;
using test::components;
using test::host_devices;
using test::says;
using test::Values;

namespace function_pipelines_test {
Tensor same(const Tensor& x) { return x; }
TypedDataset<Tensor> two(const Tensor&) { return Dataset::range(2); }
}  // namespace function_pipelines_test

using function_pipelines_test::same;
using function_pipelines_test::two;

TEST_CASE("nothing is known of the tensors that a function makes, but their number", "[input][host]") {
  const auto batches = Dataset::range(8).batch(4, true);
  const auto pairs = batches.map([](const Tensor& x) { return std::pair{x, x}; });
  CHECK(pairs.pipeline()->spec == std::vector(2, TensorSpec::unknown()));
  CHECK(pairs.pipeline()->batch_size == 4);
  CHECK(pairs.batch(2, true).pipeline()->spec == std::vector(2, TensorSpec::unknown()));
  CHECK(pairs.batch(2).pipeline()->batch_size == 2);
  CHECK(batches.filter([](const Tensor&) { return true; }).pipeline()->spec == batches.pipeline()->spec);
  CHECK(batches.interleave(two, 2).pipeline()->spec == std::vector{TensorSpec::unknown()});
  CHECK_FALSE(batches.interleave(two, 2).pipeline()->batch_size);
  CHECK(batches.map([](const Tensor& x) { return std::vector{x, x}; }).pipeline()->spec.empty());
}

TEST_CASE("functions with options that cannot be are refused", "[input][host]") {
  const auto numbers = Dataset::range(5);
  CHECK_THROWS_MATCHES(numbers.map(same, {.num_parallel_calls = 0}), InvalidArgument,
                       says("Dataset::map: num_parallel_calls is 0"));
  CHECK_THROWS_MATCHES(numbers.map(same, {.num_parallel_calls = 1025}), InvalidArgument,
                       says("Dataset::map: num_parallel_calls is 1025", "at most 1024"));
  CHECK_THROWS_MATCHES(numbers.interleave(two, 2, 1, {.num_parallel_calls = -2}), InvalidArgument,
                       says("Dataset::interleave: num_parallel_calls is -2"));
  CHECK_THROWS_MATCHES(numbers.interleave(two, 0), InvalidArgument,
                       says("Dataset::interleave: blocks of 1 elements of 0 datasets"));
  CHECK_THROWS_MATCHES(numbers.interleave(two, 1, 0), InvalidArgument, says("blocks of 0 elements"));
  CHECK_THROWS_MATCHES(numbers.prefetch(0), InvalidArgument,
                       says("Dataset::prefetch: a buffer of 0 elements"));
}

TEST_CASE("what functions make is distributed, its structure known after the first step", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto dataset = Dataset::range(8)
                           .map([](const Tensor& x) {
                             return std::pair{x, std::map<std::string, Tensor>{{"c", x + 1}}};
                           })
                           .batch(4);
  const auto dist = strategy.distribute_dataset(dataset);
  CHECK_THROWS_MATCHES(dist.element_spec(), ContextError, says("element_spec", "Fetch a step before"));
  auto iterator = dist.iterator();
  const auto [a, b] = iterator.next();
  CHECK(components(a) == std::vector<Values>{{0, 1}, {2, 3}});
  CHECK(components(b.at("c")) == std::vector<Values>{{1, 2}, {3, 4}});
  CHECK(dist.element_spec().second.at("c")[1] == TensorSpec::unknown());
}

TEST_CASE("a function's scalars are found not to be batched by the first step", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto dist = strategy.distribute_dataset(Dataset::range(8).map(same));
  CHECK(dist.element_spec()[0] == TensorSpec::unknown());
  CHECK_THROWS_MATCHES(dist.iterator().next(), InvalidArgument,
                       says("scalar component", "Batch the dataset first"));
}

TEST_CASE("a step that functions' datasets leave short is filled with empty batches", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto of = strategy.distribute_datasets_from_function(
      [](const InputContext&) { return Dataset::range(6).batch(2, true).map(same); });
  CHECK(all_steps(of) == std::vector<std::vector<Values>>{{{0, 1}, {2, 3}}, {{4, 5}, {}}});
}

TEST_CASE("steps are prefetched, and the iterator dropped in the midst", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto dataset = Dataset::range(1000).map(same, {.num_parallel_calls = 2}).batch(4).prefetch(2);
  auto iterator = strategy.distribute_dataset(dataset).iterator();
  for (std::int64_t step = 0; step < 3; ++step)
    CHECK(components(iterator.next()) ==
          std::vector<Values>{{4 * step, 4 * step + 1}, {4 * step + 2, 4 * step + 3}});
}
