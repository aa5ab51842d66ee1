// Datasets without a strategy.
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/numpy.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::host_devices;
using test::says;
using test::sequence;
using test::Values;
using test::vector_of;

namespace {

template <class Data>
Values scalars(const Data& data) {
  Values values;
  for (const Tensor& element : data) values.push_back(element.item<std::int64_t>());
  return values;
}

}  // namespace

TEST_CASE("a dataset is iterated without a strategy", "[input][host]") {
  const auto data = Dataset::range(4);
  CHECK(scalars(data) == Values{0, 1, 2, 3});
  CHECK(scalars(data) == Values{0, 1, 2, 3});
  CHECK(scalars(data.take(0)).empty());

  auto iterator = data.skip(2).iterator();
  auto other = data.iterator();
  CHECK(iterator.next().item<std::int64_t>() == 2);
  CHECK(other.next().item<std::int64_t>() == 0);
  CHECK(iterator.next_optional()->item<std::int64_t>() == 3);
  CHECK_FALSE(iterator.next_optional());
  CHECK_THROWS_MATCHES(iterator.next(), OutOfRange,
                       says("DatasetIterator::next", "has ended after 2 elements", "iterator()"));
}

TEST_CASE("elements of a dataset are the nests that they are", "[input][host]") {
  const auto pairs = Dataset::from_tensor_slices(vector_of({1, 2}), vector_of({3, 4}));
  Values sums;
  for (const auto& [a, b] : pairs) sums.push_back((a + b).item<std::int64_t>());
  CHECK(sums == Values{4, 6});

  // Keys are known from the first element on.
  const auto named = Dataset::range(2).map([](const Tensor& x) {
    return std::map<std::string, Tensor>{{"x", x}, {"twice", x + x}};
  });
  auto iterator = named.iterator();
  iterator.next();
  CHECK(iterator.next().at("twice").item<std::int64_t>() == 2);
}

TEST_CASE("an iterator of a dataset goes on after an element that throws", "[input][host]") {
  const auto data = Dataset::range(3).map([](const Tensor& x) {
    if (x.item<std::int64_t>() == 1) throw std::runtime_error("one");
    return x;
  });
  auto iterator = data.iterator();
  iterator.next();
  CHECK_THROWS_MATCHES(iterator.next(), Error, says("Dataset::map", "element 1", "one"));
  CHECK(iterator.next().item<std::int64_t>() == 2);
}

TEST_CASE("an iterator of a dataset calls functions in the default context", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto in_default = [](const Tensor& x) { return Tensor::scalar(std::int64_t{!has_strategy()}) + x; };
  const auto scope = strategy.scope();
  CHECK(scalars(Dataset::range(2).map(in_default)) == Values{1, 2});
  CHECK(has_strategy());
}

TEST_CASE("an iterator of a dataset that was moved from says so", "[input][host]") {
  auto iterator = Dataset::range(3).iterator();
  auto moved = std::move(iterator);
  CHECK(moved.next().item<std::int64_t>() == 0);
  CHECK_THROWS_MATCHES(iterator.next(), ContextError, says("DatasetIterator", "moved from"));
}

TEST_CASE("datasets are iterated in functions of datasets", "[input][host]") {
  const auto sum = [](const Tensor& n) {
    Tensor total = Tensor::scalar(std::int64_t{0});
    for (const Tensor& x : Dataset::range(n.item<std::int64_t>()).prefetch(1)) total = total + x;
    return total;
  };
  CHECK(scalars(Dataset::range(5).map(sum, {.num_parallel_calls = 2})) == Values{0, 0, 1, 3, 6});
}

TEST_CASE("make_numpy_dataset has all of tf.distribute's forms", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const Tensor rows = vector_of({5, 6});
  CHECK(scalars(strategy.make_numpy_dataset(rows)) == Values{5, 6});
  CHECK(scalars(strategy.extended().make_numpy_dataset(rows)) == Values{5, 6});
  CHECK(scalars(make_numpy_dataset(rows, strategy)) == Values{5, 6});
  const std::filesystem::path missing = "/missing.npy";
  CHECK_THROWS_AS(make_numpy_dataset(missing, strategy), NotFound);
  CHECK_THROWS_AS(strategy.extended().make_numpy_dataset(missing), NotFound);
  strategy.run([&] {
    CHECK_THROWS_MATCHES(strategy.extended().make_numpy_dataset(rows), ContextError,
                         says("make_numpy_dataset"));
  });
}

TEST_CASE("a dataset knows how many elements it has", "[input][host]") {
  constexpr std::int64_t infinite = Dataset::infinite_cardinality, unknown = Dataset::unknown_cardinality;
  CHECK(infinite == -1);
  CHECK(unknown == -2);
  const auto ten = Dataset::range(10);
  const auto odd = ten.filter([](const Tensor& x) { return x.item<std::int64_t>() % 2 == 1; });
  const auto same = [](const Tensor& x) { return x; };
  CHECK(ten.cardinality() == 10);
  CHECK(Dataset::range(3, -4, -2).cardinality() == 4);
  CHECK(Dataset::from_tensor_slices(vector_of({1, 2, 3})).cardinality() == 3);
  CHECK(Dataset::from_generator([] { return [] { return std::optional<Tensor>(); }; }).cardinality() ==
        unknown);
  CHECK(Dataset::from_files({}, [](const std::filesystem::path&) {
          return [] { return std::optional<Tensor>(); };
        }).cardinality() == unknown);
  for (const auto& kept : {ten.shuffle(3), ten.cache(), ten.prefetch(2), ten.map(same),
                           ten.map(same, {.num_parallel_calls = 2}), ten.cache("/tmp/never_opened")})
    CHECK(kept.cardinality() == 10);
  CHECK(ten.batch(3).cardinality() == 4);
  CHECK(ten.batch(3, true).cardinality() == 3);
  CHECK(ten.batch(5, true).cardinality() == 2);
  CHECK(ten.repeat(3).cardinality() == 30);
  CHECK(ten.repeat().cardinality() == infinite);
  CHECK(ten.repeat(0).cardinality() == 0);
  CHECK(ten.take(0).repeat().cardinality() == 0);
  CHECK(odd.repeat().cardinality() == infinite);
  CHECK(odd.repeat(2).cardinality() == unknown);
  CHECK(odd.repeat(0).cardinality() == 0);
  CHECK(Dataset::range(INT64_MAX).repeat(3).cardinality() == unknown);  // no 64-bit number
  CHECK(ten.take(4).cardinality() == 4);
  CHECK(ten.take(14).cardinality() == 10);
  CHECK(ten.repeat().take(7).cardinality() == 7);
  CHECK(odd.take(2).cardinality() == unknown);
  CHECK(odd.take(0).cardinality() == 0);
  CHECK(ten.skip(4).cardinality() == 6);
  CHECK(ten.skip(14).cardinality() == 0);
  CHECK(ten.repeat().skip(4).cardinality() == infinite);
  CHECK(odd.skip(1).cardinality() == unknown);
  CHECK(ten.shard(4, 1).cardinality() == 3);
  CHECK(ten.shard(4, 2).cardinality() == 2);
  CHECK(ten.repeat().shard(4, 1).cardinality() == infinite);
  CHECK(ten.shard(Dataset::shard_hint, Dataset::shard_hint).cardinality() == unknown);
  CHECK(ten.concatenate(ten.take(2)).cardinality() == 12);
  CHECK(ten.concatenate(ten.repeat()).cardinality() == infinite);
  CHECK(odd.concatenate(ten.repeat()).cardinality() == infinite);
  CHECK(odd.concatenate(ten).cardinality() == unknown);
  CHECK(Dataset::range(INT64_MAX).concatenate(ten).cardinality() == unknown);
  CHECK(Dataset::zip(ten, ten.take(3)).cardinality() == 3);
  CHECK(Dataset::zip(ten, ten.repeat()).cardinality() == 10);
  CHECK(Dataset::zip(ten.repeat(), ten.repeat()).cardinality() == infinite);
  CHECK(Dataset::zip(ten, odd).cardinality() == unknown);
  CHECK(odd.cardinality() == unknown);
  CHECK(ten.interleave([](const Tensor&) { return Dataset::range(2); }, 2).cardinality() == unknown);
}

TEST_CASE("what cardinality says is what passes have", "[input][host]") {
  for (std::int64_t n = 0; n < 8; ++n)
    for (std::int64_t k = 1; k < 5; ++k) {
      CAPTURE(n, k);
      const auto data = Dataset::range(n);
      const auto count = [](const auto& dataset) {
        std::int64_t elements = 0;
        for (auto iterator = dataset.iterator(); iterator.next_optional();) ++elements;
        return elements;
      };
      for (const auto& made : {data.batch(k), data.batch(k, true), data.repeat(k), data.take(k), data.skip(k),
                               data.shard(k, k - 1), data.concatenate(data.take(k)), data.repeat(2).skip(k)})
        CHECK(count(made) == made.cardinality());
    }
}
