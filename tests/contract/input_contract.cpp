#include <algorithm>
#include <cmath>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/stream.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

using namespace lockstep;
using test::components;
using test::says;
using test::sequence;
using test::TestBackend;
using test::Values;
using test::vector_of;

TEST_CASE("P18 a batch is split in row order, and its parts have their real shapes", "[input]") {
  const auto [num_rows, num_replicas] =
      GENERATE(table<std::int64_t, int>({{32, 3}, {9, 4}, {12, 4}, {1, 2}, {7, 1}, {65, 4}}));
  MirroredStrategy strategy(TestBackend::devices(num_replicas));
  const auto dist = strategy.distribute_dataset(Dataset::range(num_rows).batch(num_rows));
  auto iterator = dist.iterator();
  const PerReplica<Tensor> value = iterator.next();
  const std::int64_t most = (num_rows + num_replicas - 1) / num_replicas;
  REQUIRE(value.size() == num_replicas);
  std::int64_t begin = 0;
  for (int replica = 0; replica < num_replicas; ++replica) {
    const std::int64_t size = std::min(most, num_rows - begin);
    const Tensor& part = value[replica];
    CHECK(part.shape() == Shape(size));
    CHECK(part.device() == TestBackend::device(replica));
    CHECK(part.to_vector<std::int64_t>() == sequence(begin, begin + size));
    CHECK_THROWS_AS(part.slice(0, size + 1), InvalidArgument);
    begin += size;
  }
  CHECK(strategy.gather(value, 0).to_vector<std::int64_t>() == sequence(0, num_rows));
  CHECK_FALSE(iterator.next_optional());
}

TEST_CASE("P19 an epoch has every row once, whatever the number of replicas", "[input]") {
  const int num_replicas = GENERATE(from_range(TestBackend::replica_counts()));
  MirroredStrategy strategy(TestBackend::devices(num_replicas));
  const auto dist = strategy.distribute_dataset(Dataset::range(10).batch(4));
  for (int epoch = 0; epoch < 2; ++epoch) {
    Values step_rows, rows;
    for (const PerReplica<Tensor>& value : dist) {
      const auto counts =
          strategy.run([](const Tensor& part) { return Tensor::scalar(part.shape()[0]); }, value);
      step_rows.push_back(strategy.reduce(ReduceOp::sum, counts).item<std::int64_t>());
      for (const Values& part : components(value)) rows.insert(rows.end(), part.begin(), part.end());
    }
    CHECK(step_rows == Values{4, 4, 2});
    CHECK(rows == sequence(0, 10));
  }
}

TEST_CASE("P20 replicas without rows take part", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(7));
  const Tensor rows = Tensor::from<float>({1, 2, 6}, {3}, "CPU:0");
  int steps = 0;
  for (const PerReplica<Tensor>& value :
       strategy.distribute_dataset(Dataset::from_tensor_slices(rows).batch(8))) {
    ++steps;
    for (int replica = 0; replica < 7; ++replica) CHECK(value[replica].size() == (replica < 3 ? 1 : 0));
    const auto doubled = strategy.run([](const Tensor& part) { return part + part; }, value);
    CHECK(strategy.reduce(ReduceOp::mean, doubled, 0).item<float>() == 6);  // (2 + 4 + 12) / 3
  }
  CHECK(steps == 1);
}

TEST_CASE("numpy-two-epochs: every step of two epochs is the whole", "[input][conformance]") {
  MirroredStrategy strategy(TestBackend::devices(2));
  const std::vector<float> xs{1, 2, 6, 12, 2, 4, 5, 10, 3, 6, 4, 8};
  const Values ys{5, 4, 3, 2, 1, 0};
  const auto dataset = strategy.make_numpy_dataset(std::tuple{Tensor::from(xs, {6, 2}), vector_of(ys)});
  auto iterator = strategy.distribute_dataset(dataset.repeat(2).batch(6)).iterator();
  for (int step = 0; step < 2; ++step) {
    const auto [x, y] = iterator.next();
    const Tensor all_x = strategy.gather(x, 0);
    CHECK(all_x.shape() == Shape(6, 2));
    CHECK(all_x.to_vector<float>() == xs);
    CHECK(strategy.gather(y, 0).to_vector<std::int64_t>() == ys);
  }
  CHECK_THROWS_MATCHES(iterator.next(), OutOfRange, says("ended after 2 steps"));
}

TEST_CASE("next-in-replica: values are fetched outside replica functions", "[input][conformance]") {
  MirroredStrategy strategy(TestBackend::devices(2));
  auto iterator = strategy.distribute_dataset(Dataset::range(4).batch(4)).iterator();
  CHECK_THROWS_MATCHES(
      strategy.run([&] { iterator.next(); }), ContextError,
      says("DistributedIterator::next: called in a replica function", "pass the value to run"));
  const auto scope = strategy.scope();
  CHECK(components(iterator.next()) == std::vector<Values>{{0, 1}, {2, 3}});
}

TEST_CASE("values may be fetched in a merge function", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(2));
  auto iterator = strategy.distribute_dataset(Dataset::range(4).batch(4)).iterator();
  const auto parts = strategy.run([&](ReplicaContext& context) {
    return context.merge_call([&](Strategy&) { return iterator.next(); });
  });
  CHECK(components(parts) == std::vector<Values>{{0, 1}, {2, 3}});
}

TEST_CASE("one-row-two-replicas: a part without rows keeps its dtype", "[input][conformance]") {
  MirroredStrategy strategy(TestBackend::devices(2));
  const auto dist = strategy.distribute_dataset(Dataset::from_tensor_slices(vector_of({5})).batch(2));
  const auto doubled = strategy.run([](const Tensor& x) { return x + x; }, dist.iterator().next());
  CHECK(components(doubled) == std::vector<Values>{{10}, {}});
  for (const Tensor& part : doubled) CHECK(part.dtype() == DType::i64);
}

TEST_CASE("components stay on the host unless they are fetched", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(2));
  const auto dataset = Dataset::range(4).batch(4);
  const PerReplica<Tensor> here =
      strategy.distribute_dataset(dataset, {.fetch_to_device = false}).iterator().next();
  const PerReplica<Tensor> there = strategy.distribute_dataset(dataset).iterator().next();
  for (int replica = 0; replica < 2; ++replica) {
    CHECK(here[replica].device() == Device("CPU:0"));
    CHECK(there[replica].device() == TestBackend::device(replica));
  }
  CHECK(components(here) == components(there));
}

TEST_CASE("functions of datasets have the host's device and stream, whoever asks for the element",
          "[input]") {
  const int buffer_size = GENERATE(0, 1);
  const Stream own{Device()};
  const StreamRef host_stream = current_stream(Device());
  const auto data = Dataset::range(2).map([host_stream](const Tensor& x) {
    const bool is_host = current_device() == Device() && current_stream(Device()) == host_stream;
    return Tensor::scalar(std::int64_t{is_host && x.device() == Device()});
  });
  const std::vector<std::int64_t> yes{1};
  MirroredStrategy strategy(TestBackend::devices(2));
  const auto dist = strategy.distribute_dataset(data.batch(2), {.per_replica_buffer_size = buffer_size});
  {
    const StreamScope stream(own);
    const DeviceScope device(TestBackend::device(1));
    REQUIRE(dist.iterator().next()[0].to_vector<std::int64_t>() == yes);
    REQUIRE(data.iterator().next().item<std::int64_t>() == 1);
    REQUIRE(current_device() == TestBackend::device(1));
    REQUIRE(current_stream(Device()) == own);
  }
  const auto seen = strategy.run([&] { return data.iterator().next(); });
  for (const Tensor& each : seen) REQUIRE(each.item<std::int64_t>() == 1);
}

TEST_CASE("functions of datasets run in the default context, whoever asks for the element", "[input]") {
  const int buffer_size = GENERATE(0, 1);
  MirroredStrategy strategy(TestBackend::devices(1));
  const auto data = Dataset::range(3)
                        .map([](const Tensor&) {
                          return Tensor::scalar(std::int64_t{has_strategy()} +
                                                2 * std::int64_t{in_cross_replica_context()});
                        })
                        .batch(1);
  const auto dist = strategy.distribute_dataset(data, {.per_replica_buffer_size = buffer_size});
  const auto scope = strategy.scope();
  auto iterator = dist.iterator();
  for (int step = 0; step < 3; ++step)
    CHECK(iterator.next()[0].to_vector<std::int64_t>() == std::vector<std::int64_t>{0});
  CHECK(has_strategy());
}
