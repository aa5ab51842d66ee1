#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/auto_shard.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/detail/iteration_key.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::components;
using test::flat_elements;
using test::host_devices;
using test::says;
using test::sequence;
using test::Values;

namespace {

constexpr std::int64_t kHint = Dataset::shard_hint;

TypedDataset<Tensor> shuffled(std::int64_t n, std::optional<std::uint64_t> seed = 1) {
  return Dataset::range(n).shuffle(n, seed);
}

Values together(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  return a;
}

/// Rows of an iterator's steps.
template <class Iterator>
Values take_steps(Iterator& iterator, int num_steps) {
  Values rows;
  for (int step = 0; step < num_steps; ++step)
    for (const Values& part : components(iterator.next())) rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

/// A reader: the numbers below the path's name.
struct Numbers {
  auto operator()(const std::filesystem::path& path) const {
    return [next = std::int64_t{0}, end = std::stoll(path.string())]() mutable -> std::optional<Tensor> {
      return next < end ? std::optional(Tensor::scalar(next++)) : std::nullopt;
    };
  }
};

}  // namespace

TEST_CASE("an iterator's orders do not depend on how far the ones before it read", "[input][host]") {
  MirroredStrategy strategy(host_devices(1));
  std::set<Values> orders;
  for (const int num_steps : {0, 1, 4, 5, 9}) {
    const auto dist = strategy.distribute_dataset(shuffled(8).repeat().batch(2),
                                                  {.per_replica_buffer_size = GENERATE(0, 1, 4)});
    auto first = dist.iterator();
    take_steps(first, num_steps);
    auto second = dist.iterator();
    orders.insert(take_steps(second, 8));
  }
  CHECK(orders.size() == 1);
}

TEST_CASE("the first repetition has the order of the dataset, all others have others", "[input][host]") {
  const Values rows = flat_elements(shuffled(20).repeat(2).repeat(2));
  std::set<Values> orders;
  for (auto begin = rows.begin(); begin != rows.end(); begin += 20) orders.insert(Values(begin, begin + 20));
  CHECK(orders.size() == 4);
  CHECK(flat_elements(shuffled(20)) == Values(rows.begin(), rows.begin() + 20));
}

TEST_CASE("two shuffles by one seed make two permutations", "[input][host]") {
  const Values once = flat_elements(shuffled(20)), twice = flat_elements(shuffled(20).shuffle(20, 1));
  Values squared;
  for (const std::int64_t i : once) squared.push_back(once[static_cast<std::size_t>(i)]);
  CHECK(twice != squared);
}

TEST_CASE("what comes after a shuffle does not change its order", "[input][host]") {
  const Values order = flat_elements(shuffled(20));
  CHECK(flat_elements(shuffled(20).batch(3).prefetch(1)) == order);
  CHECK(flat_elements(shuffled(20).shuffle(1, 2)) == order);
  CHECK(flat_elements(Dataset::zip(Dataset::range(20), shuffled(20)), 1) == order);
  CHECK(flat_elements(Dataset::range(0).shuffle(9, 3).concatenate(shuffled(20))) == order);
}

TEST_CASE("a seed's later passes are not other seeds' passes", "[input][host]") {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // the step of SplitMix64
  const auto first = shuffled(20, 0);
  flat_elements(first);
  CHECK(flat_elements(first) != flat_elements(shuffled(20, kGolden)));
}

TEST_CASE("datasets that are shuffled by one seed go together in a zip, one dataset twice does not",
          "[input][host]") {
  const auto pairs = Dataset::zip(shuffled(20), shuffled(20).map([](const Tensor& x) { return x; }));
  for (int pass = 0; pass < 2; ++pass) {
    const auto elements = Dataset(pairs).pipeline()->open();
    while (const auto element = elements->next())
      CHECK(element->at(0).item<std::int64_t>() == element->at(1).item<std::int64_t>());
  }
  const auto one = shuffled(20);
  const auto itself =
      Dataset::zip(one.prefetch(1), one).map([](const Tensor& x, const Tensor& y) { return x * 20 + y; });
  const Values first = flat_elements(itself), second = flat_elements(itself);
  CHECK(std::count_if(first.begin(), first.end(), [](std::int64_t v) { return v / 20 == v % 20; }) < 10);
  CHECK(first != second);
}

TEST_CASE("datasets that a function makes have an order for each element and pass", "[input][host]") {
  const auto inner = shuffled(20);
  const auto interleaved = [&](int num_parallel_calls) {
    return Dataset::range(3).interleave([inner](const Tensor&) { return inner; }, 1, 1,
                                        {.num_parallel_calls = num_parallel_calls});
  };
  const auto data = interleaved(1);
  std::set<Values> orders;
  for (int pass = 0; pass < 2; ++pass) {
    const Values rows = flat_elements(data);
    for (auto begin = rows.begin(); begin != rows.end(); begin += 20)
      orders.insert(Values(begin, begin + 20));
  }
  CHECK(orders.size() == 6);
  CHECK(flat_elements(interleaved(2)) == flat_elements(interleaved(1)));
  const auto pairs = Dataset::range(1).interleave(
      [inner](const Tensor&) {
        return Dataset::zip(inner, inner).map([](const Tensor& x, const Tensor& y) { return x - y; });
      },
      1);
  CHECK(flat_elements(pairs) != Values(20));
}

TEST_CASE("shares of one shuffled dataset are the whole in every pass", "[input][host]") {
  const auto data = shuffled(20);
  const auto share = [&](const auto& of, int w) {
    return auto_shard(of, InputContext(2, w, 2), AutoShardPolicy::data);
  };
  const auto a = share(data, 0), b = share(data, 1);
  for (int pass = 0; pass < 3; ++pass) CHECK(together(flat_elements(a), flat_elements(b)) == sequence(0, 20));
  // Also where they are made again, and the whole is read in between; in another order each time.
  const Values before = flat_elements(a);
  flat_elements(data);
  CHECK(together(before, flat_elements(share(data, 1))) == sequence(0, 20));
  CHECK(flat_elements(share(data, 0)) != before);
  flat_elements(share(data, 1));
  // Below transformations, and in one pass.
  const auto batches = data.repeat(2).batch(5).prefetch(1);
  CHECK(together(flat_elements(share(batches, 0)), flat_elements(share(batches, 1))) ==
        together(sequence(0, 20), sequence(0, 20)));
  CHECK(together(flat_elements(data.shard(2, 0).concatenate(data.shard(2, 1))), {}) == sequence(0, 20));
  const auto hinted = data.shard(kHint, kHint);
  const auto told = [&](int w) {
    return flat_elements(auto_shard(hinted, InputContext(2, w, 2), AutoShardPolicy::hint));
  };
  for (int pass = 0; pass < 2; ++pass) CHECK(together(told(0), told(1)) == sequence(0, 20));
}

TEST_CASE("shards of one dataset that is shuffled without a seed are the whole", "[input][host]") {
  const auto data = shuffled(50, {});
  const auto a = data.shard(2, 0), b = data.shard(2, 1);
  for (int pass = 0; pass < 2; ++pass) CHECK(together(flat_elements(a), flat_elements(b)) == sequence(0, 50));
  CHECK(flat_elements(a) != flat_elements(a));
}

TEST_CASE("shares by file are ordered as if each were alone in its process", "[input][host]") {
  const auto orders = [](int num_others) {
    const auto data = Dataset::from_files({"20", "20"}, Numbers()).shuffle(20, 1);
    const auto other = auto_shard(data, InputContext(2, 0, 2));
    for (int pass = 0; pass < num_others; ++pass) flat_elements(other);
    return flat_elements(auto_shard(data, InputContext(2, 1, 2)));
  };
  CHECK(orders(0) == orders(3));
}

TEST_CASE("datasets for each replica, shards of one, are the whole", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto data = shuffled(20, GENERATE(std::optional<std::uint64_t>(5), std::nullopt));
  const auto dist = strategy.distribute_datasets_from_function(
      [&](const InputContext& context) {
        return data.shard(context.num_input_pipelines(), context.input_pipeline_id()).batch(5);
      },
      {.replication_mode = InputReplicationMode::per_replica});
  for (int pass = 0; pass < 2; ++pass) {
    auto iterator = dist.iterator();
    Values rows = take_steps(iterator, 2);
    std::sort(rows.begin(), rows.end());
    CHECK(rows == sequence(0, 20));
  }
}

TEST_CASE("a shuffle without a seed below shares that other processes may have is refused", "[input][host]") {
  const auto check = [](const TypedDataset<Tensor>& data, AutoShardPolicy policy) {
    auto pass = auto_shard(data, InputContext(2, 1, 2), policy);
    CHECK_THROWS_MATCHES(
        flat_elements(pass), InvalidArgument,
        says("Dataset::shuffle: there is no seed", "would draw another", "Pass a seed, the same for all"));
    CHECK(flat_elements(auto_shard(data, InputContext(1, 0, 1), policy)).size() >= 20);
  };
  const auto data = shuffled(20, {});
  check(data, AutoShardPolicy::data);
  check(data.batch(2).repeat(2).prefetch(1), AutoShardPolicy::data);
  check(data.shard(kHint, kHint), AutoShardPolicy::hint);
  check(Dataset::range(2).interleave([](const Tensor&) { return shuffled(20, {}); }, 2),
        AutoShardPolicy::data);
  // Each share of the files may be in any order.
  const auto files = Dataset::from_files({"20", "20"}, Numbers()).shuffle(20);
  CHECK(flat_elements(auto_shard(files, InputContext(2, 1, 2))).size() == 20);
}
