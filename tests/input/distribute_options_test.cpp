// InputOptions of distribute.cpp: how batches are split, and what is made ahead.
#include <atomic>
#include <stdexcept>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/strategy/central_storage_strategy.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/one_device_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using test::all_steps;
using test::components;
using test::host_devices;
using test::says;
using test::sequence;
using test::Values;
using test::vector_of;

using Steps = std::vector<std::vector<Values>>;

TEST_CASE("batches are split as the options say", "[input][host]") {
  MirroredStrategy strategy(host_devices(4));
  const auto dataset = Dataset::range(15).batch(9);
  CHECK(all_steps(strategy.distribute_dataset(dataset, {.batch_split = BatchSplit::ceiling})) ==
        Steps{{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {}}, {{9, 10}, {11, 12}, {13, 14}, {}}});
  CHECK(all_steps(strategy.distribute_dataset(dataset, {.batch_split = BatchSplit::balanced})) ==
        Steps{{{0, 1, 2}, {3, 4}, {5, 6}, {7, 8}}, {{9, 10}, {11, 12}, {13}, {14}}});
  const InputOptions weighted{.batch_split = BatchSplit::weighted, .batch_weights = {4, 2, 0, 3}};
  CHECK(all_steps(strategy.distribute_dataset(dataset, weighted)) ==
        Steps{{{0, 1, 2, 3}, {4, 5}, {}, {6, 7, 8}}, {{9, 10, 11}, {12}, {}, {13, 14}}});
}

TEST_CASE("slices of files are of balanced_batch_sizes, unless the split says otherwise", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto dataset = Dataset::range(14).batch(8);
  CHECK(all_steps(strategy.distribute_dataset(dataset, {.auto_shard_policy = AutoShardPolicy::off})) ==
        Steps{{sequence(0, 4), sequence(4, 8)}, {sequence(8, 12), sequence(12, 14)}});
  CHECK(all_steps(strategy.distribute_dataset(
            dataset, {.auto_shard_policy = AutoShardPolicy::off, .batch_split = BatchSplit::balanced})) ==
        Steps{{sequence(0, 4), sequence(4, 8)}, {sequence(8, 11), sequence(11, 14)}});
  CHECK(all_steps(strategy.distribute_dataset(dataset, {.auto_shard_policy = AutoShardPolicy::off,
                                                        .batch_split = BatchSplit::weighted,
                                                        .batch_weights = {1, 3}})) ==
        Steps{{sequence(0, 2), sequence(2, 8)}, {{8, 9}, sequence(10, 14)}});
}

TEST_CASE("the element spec knows the rows of even splits only", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto rows_of = [&](std::int64_t batch, BatchSplit split, std::vector<double> weights) {
    const InputOptions options{.batch_split = split, .batch_weights = std::move(weights)};
    return strategy.distribute_dataset(Dataset::range(8).batch(batch, true), options)
        .element_spec()[0]
        .extents.at(0);
  };
  CHECK(rows_of(4, BatchSplit::balanced, {}) == 2);
  CHECK_FALSE(rows_of(3, BatchSplit::balanced, {}));
  CHECK(rows_of(4, BatchSplit::weighted, {1, 1}) == 2);
  CHECK_FALSE(rows_of(4, BatchSplit::weighted, {3, 1}));
}

TEST_CASE("weights that are wrong are refused when the dataset is distributed", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto distribute = [&](BatchSplit split, std::vector<double> weights) {
    static_cast<void>(strategy.distribute_dataset(
        Dataset::range(8).batch(4), {.batch_split = split, .batch_weights = std::move(weights)}));
  };
  CHECK_THROWS_MATCHES(distribute(BatchSplit::weighted, {1}), InvalidArgument,
                       says("distribute_dataset: there are 1 batch_weights for 2 replicas"));
  CHECK_THROWS_MATCHES(distribute(BatchSplit::weighted, {1, -2}), InvalidArgument,
                       says("batch_weights[1] is -2"));
  CHECK_THROWS_MATCHES(distribute(BatchSplit::weighted, {0, 0}), InvalidArgument, says("are 0"));
  CHECK_THROWS_MATCHES(distribute(BatchSplit::ceiling, {1, 1}), InvalidArgument,
                       says("batch_split is ceiling", "BatchSplit::weighted"));

  const auto make = [](const InputContext&) { return Dataset::range(8).batch(4); };
  CHECK_THROWS_MATCHES(
      strategy.distribute_datasets_from_function(make, {.batch_split = BatchSplit::balanced}),
      InvalidArgument, says("distribute_datasets_from_function: batch_split is balanced", "are not split"));
  CHECK_THROWS_MATCHES(strategy.distribute_datasets_from_function(make, {.batch_weights = {1, 1}}),
                       InvalidArgument, says("with 2 batch_weights"));
}

TEST_CASE("with a buffer steps are made ahead on a thread of the pass's, without one on the caller's",
          "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const int buffer = GENERATE(0, 1, 3);
  std::atomic<int> calls = 0, calls_here = 0;
  const auto caller = std::this_thread::get_id();
  const auto dataset = Dataset::range(100).batch(4).map([&](const Tensor& x) {
    if (std::this_thread::get_id() == caller) ++calls_here;
    ++calls;
    return x;
  });
  auto iterator = strategy.distribute_dataset(dataset, {.per_replica_buffer_size = buffer}).iterator();
  CHECK(calls == 0);
  CHECK(iterator.num_waits() == 0);
  CHECK(components(iterator.next()) == std::vector<Values>{{0, 1}, {2, 3}});
  CHECK(iterator.num_waits() <= 1);
  while (calls < 1 + buffer) std::this_thread::yield();  // the steps ahead come by themselves
  CHECK(components(iterator.next()) == std::vector<Values>{{4, 5}, {6, 7}});
  if (buffer == 0) {
    CHECK(iterator.num_waits() == 2);
    CHECK(calls == 2);
  }
  CHECK(calls_here == (buffer == 0 ? 2 : 0));
}

TEST_CASE("an exception comes at its step, whatever is made ahead", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const int buffer = GENERATE(0, 1, 4);
  const auto dataset = Dataset::range(12).batch(4).map([](const Tensor& x) {
    if (x.slice(0, 1).item<std::int64_t>() == 4) throw std::runtime_error("bad");
    return x;
  });
  const auto dist = strategy.distribute_dataset(dataset, {.per_replica_buffer_size = buffer});
  for (int pass = 0; pass < 2; ++pass) {
    auto iterator = dist.iterator();
    CHECK(components(iterator.next()) == std::vector<Values>{{0, 1}, {2, 3}});
    CHECK_THROWS_MATCHES(iterator.next(), Error, says("Dataset::map: element 1: bad"));
    CHECK(components(iterator.next()) == std::vector<Values>{{8, 9}, {10, 11}});
    CHECK_FALSE(iterator.next_optional());
    CHECK_FALSE(iterator.next_optional());
  }
}

TEST_CASE("passes that are made ahead are independent, and can be dropped at any time", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto none = [](const Tensor&) { return false; };
  const auto dist = strategy.distribute_dataset(
      Dataset::range(8).concatenate(Dataset::range(8).repeat().filter(none)).batch(4));  // ends with a search
  for (int round = 0; round < 20; ++round) {
    auto first = dist.iterator();
    auto second = dist.iterator();
    for (int step = 0; step < round % 3; ++step) CHECK(components(first.next()) == components(second.next()));
    auto third = std::move(first);
  }
}

TEST_CASE("the waits of an iterator that was moved from are not known", "[input][host]") {
  MirroredStrategy strategy(host_devices(1));
  auto iterator = strategy.distribute_dataset(Dataset::range(4).batch(2)).iterator();
  const auto moved = std::move(iterator);
  CHECK(moved.num_waits() == 0);
  CHECK_THROWS_MATCHES(iterator.num_waits(), ContextError,
                       says("DistributedIterator: used after it was moved from"));
}

TEST_CASE("values are the caller's: nothing else changes with them", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const Tensor rows = vector_of(sequence(0, 4));
  const auto table = Dataset::from_tensor_slices(rows).batch(4);
  const Tensor same = vector_of({1, 2, 3, 4});
  const auto of_one = Dataset::range(3).map([same](const Tensor&) { return same; });
  for (const auto& dataset : {table, table.prefetch(1), table.cache(), of_one})
    for (const bool fetch : {true, false}) {
      const auto dist = strategy.distribute_dataset(dataset, {.fetch_to_device = fetch});
      const std::vector<Values> expected = components(dist.iterator().next());
      for (int pass = 0; pass < 2; ++pass) {
        const PerReplica<Tensor> value = dist.iterator().next();
        CHECK(components(value) == expected);
        Tensor first = value[0];
        first.fill_(-1);
        CHECK(components(value)[1] == expected[1]);
      }
    }
  CHECK(rows.to_vector<std::int64_t>() == sequence(0, 4));
  CHECK(same.to_vector<std::int64_t>() == Values{1, 2, 3, 4});
}

TEST_CASE("rows of a table are copied once, straight to where their replica wants them", "[input][host]") {
  MirroredStrategy strategy(host_devices(4));
  const std::int64_t before = memory_stats("CPU:0").in_use_bytes;
  auto iterator =
      strategy.distribute_dataset(Dataset::range(1 << 16).batch(1 << 16), {.per_replica_buffer_size = 0})
          .iterator();
  const PerReplica<Tensor> value = iterator.next();
  CHECK(memory_stats("CPU:0").in_use_bytes == before + 8 * (1 << 16));  // the values, and no batch
}

TEST_CASE("every strategy places its input on its own devices", "[input][host]") {
  const auto dataset = Dataset::range(4).batch(4);
  OneDeviceStrategy one("CPU:2");
  CHECK(one.distribute_dataset(dataset).iterator().next()[0].device() == Device("CPU:2"));
  CHECK(one.distribute_dataset(dataset, {.fetch_to_device = false}).iterator().next()[0].device() ==
        Device("CPU:0"));
  CHECK(get_strategy().distribute_dataset(dataset).iterator().next()[0].device() == Device("CPU:0"));
  CentralStorageStrategy central({"CPU:1", "CPU:2"}, "CPU:0");
  const PerReplica<Tensor> value = central.distribute_dataset(dataset).iterator().next();
  CHECK(components(value) == std::vector<Values>{{0, 1}, {2, 3}});
  CHECK(value[0].device() == Device("CPU:1"));
  CHECK(value[1].device() == Device("CPU:2"));
}
