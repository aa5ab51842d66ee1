// The path of batches to the replicas' devices.
#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <tuple>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/strategy/central_storage_strategy.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/one_device_strategy.hpp>
#include <lockstep/strategy/replica_context.hpp>

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

namespace {

int most_replicas() { return TestBackend::replica_counts().back(); }

/// All rows, in the order of steps and replicas.
template <class Steps>
Values rows_of(const Steps& steps) {
  Values rows;
  for (const auto& value : steps)
    for (const Values& part : components(value)) rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

}  // namespace

TEST_CASE("every row arrives once and in order, whatever the buffer, split and last batch", "[input]") {
  const int num_replicas = GENERATE(from_range(TestBackend::replica_counts()));
  const int buffer = GENERATE(0, 1, 3);
  MirroredStrategy strategy(TestBackend::devices(num_replicas));
  std::vector<double> weights;
  for (int replica = 0; replica < num_replicas; ++replica) weights.push_back(1 + replica % 2);
  for (const BatchSplit split : {BatchSplit::ceiling, BatchSplit::balanced, BatchSplit::weighted}) {
    InputOptions options{.per_replica_buffer_size = buffer, .batch_split = split};
    if (split == BatchSplit::weighted) options.batch_weights = weights;
    const auto numbers = Dataset::range(61).batch(9);
    for (const auto& dataset : {numbers, numbers.prefetch(2)}) {
      const auto dist = strategy.distribute_dataset(dataset, options);
      for (int epoch = 0; epoch < 2; ++epoch) CHECK(rows_of(dist) == sequence(0, 61));
    }
  }
}

TEST_CASE("values stay as they are for as long as they are kept", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(most_replicas()));
  std::vector<PerReplica<Tensor>> kept;
  {
    const auto dist =
        strategy.distribute_dataset(Dataset::range(160).batch(8), {.per_replica_buffer_size = 2});
    auto iterator = dist.iterator();
    for (int step = 0; step < 10; ++step) {
      kept.push_back(iterator.next());
      if (step % 3 != 0) iterator.next();  // dropped: its memory is used again
    }
  }
  Values expected;
  for (std::int64_t step = 0, taken = 0; step < 10; ++step, ++taken) {
    const Values rows = sequence(8 * taken, std::min<std::int64_t>(8 * taken + 8, 160));
    expected.insert(expected.end(), rows.begin(), rows.end());
    if (step % 3 != 0) ++taken;
  }
  CHECK(rows_of(kept) == expected);
}

TEST_CASE("replicas may write to their values; steps after them do not see it", "[input]") {
  const int buffer = GENERATE(0, 2);
  MirroredStrategy strategy(TestBackend::devices(most_replicas()));
  const std::int64_t num_steps = 12, batch = 4 * most_replicas();
  const auto dist = strategy.distribute_dataset(Dataset::range(num_steps * batch).batch(batch),
                                                {.per_replica_buffer_size = buffer});
  std::int64_t step = 0;
  for (const auto& value : dist) {
    const auto sums = strategy.run(
        [](const Tensor& x) {
          Tensor own = x;
          const Tensor before = own.clone();
          own.fill_(-1);
          return before + own;
        },
        value);
    CHECK(strategy.gather(sums, 0).to_vector<std::int64_t>() ==
          sequence(step * batch - 1, (step + 1) * batch - 1));
    ++step;
  }
  CHECK(step == num_steps);
}

TEST_CASE("a step's components of several dtypes arrive together", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(most_replicas()));
  const std::vector<float> pixels = [] {
    std::vector<float> values(40 * 3);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 4;
    return values;
  }();
  const auto dataset = Dataset::from_tensor_slices(
      Tensor::from(pixels, {40, 3}, "CPU:0"), vector_of(sequence(0, 40)),
      Tensor::zeros({40, 0}, DType::f16, "CPU:0"), Tensor::full({40, 2}, 7, DType::u8, "CPU:0"));
  std::vector<float> images;
  Values labels;
  for (const auto& [image, label, nothing, mask] : strategy.distribute_dataset(dataset.batch(11))) {
    const std::vector<float> part = strategy.gather(image, 0).to_vector<float>();
    images.insert(images.end(), part.begin(), part.end());
    for (const Values& rows : components(label)) labels.insert(labels.end(), rows.begin(), rows.end());
    for (int replica = 0; replica < image.size(); ++replica) {
      const std::int64_t num_rows = image[replica].shape()[0];
      CHECK(nothing[replica].shape() == Shape(num_rows, 0));
      CHECK(mask[replica].to_vector<std::uint8_t>() ==
            std::vector<std::uint8_t>(static_cast<std::size_t>(2 * num_rows), 7));
      CHECK(mask[replica].device() == TestBackend::device(replica));
    }
  }
  CHECK(images == pixels);
  CHECK(labels == sequence(0, 40));
}

TEST_CASE("elements that functions make arrive as well, and so does the exception of one", "[input]") {
  const int buffer = GENERATE(0, 2);
  MirroredStrategy strategy(TestBackend::devices(most_replicas()));
  const auto dataset = Dataset::range(40)
                           .map([](const Tensor& x) {
                             if (x.item<std::int64_t>() == 21) throw std::runtime_error("bad");
                             return x * 2;
                           })
                           .batch(8);
  auto iterator = strategy.distribute_dataset(dataset, {.per_replica_buffer_size = buffer}).iterator();
  CHECK(strategy.gather(iterator.next(), 0).to_vector<std::int64_t>() == Values{0, 2, 4, 6, 8, 10, 12, 14});
  CHECK(iterator.next().size() == most_replicas());
  CHECK_THROWS_MATCHES(iterator.next(), Error, says("Dataset::map: element 21: bad"));
  CHECK(iterator.next().size() == most_replicas());
}

TEST_CASE("an element that throws leaves out no other", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(most_replicas()));
  const auto numbers = Dataset::range(40).map([](const Tensor& x) {
    if (x.item<std::int64_t>() % 7 == 5) throw std::runtime_error("bad");
    return x;
  });
  Values good;
  for (std::int64_t i = 0; i < 40; ++i)
    if (i % 7 != 5) good.push_back(i);
  InputOptions options{.per_replica_buffer_size = GENERATE(0, 2)};
  const auto check = [&](const auto& dist) {
    auto iterator = dist.iterator();
    Values rows;
    int num_errors = 0;
    for (bool has_ended = false; !has_ended;) try {
        const auto value = iterator.next_optional();
        has_ended = !value;
        if (!value) continue;
        for (const Values& part : components(*value)) rows.insert(rows.end(), part.begin(), part.end());
      } catch (const Error&) {
        ++num_errors;
      }
    CHECK(rows == good);
    CHECK(num_errors == 5);
  };
  check(strategy.distribute_dataset(numbers.batch(3), options));
  check(strategy.distribute_datasets_from_function([&](const InputContext&) { return numbers.batch(1); },
                                                   options));
  options.auto_shard_policy = AutoShardPolicy::off;
  check(strategy.distribute_dataset(numbers.batch(2 * most_replicas()), options));
  check(strategy.distribute_dataset(
      numbers.batch(1).interleave([](const Tensor& x) { return Dataset::from_tensor_slices(x); }, 1).batch(3),
      options));
}

TEST_CASE("memory is used again: later steps allocate nothing", "[input]") {
  const int num_replicas = most_replicas();
  MirroredStrategy strategy(TestBackend::devices(num_replicas));
  const int buffer = GENERATE(0, 2);
  const std::int64_t batch = 1024 * num_replicas;
  auto iterator = strategy
                      .distribute_dataset(Dataset::range(batch).repeat().batch(batch),
                                          {.per_replica_buffer_size = buffer})
                      .iterator();
  std::vector<std::int64_t> before;
  for (int replica = 0; replica < num_replicas; ++replica)
    before.push_back(memory_stats(TestBackend::device(replica)).in_use_bytes);
  for (int step = 0; step < 30; ++step) {
    const auto value = iterator.next();
    strategy.run([](Tensor x) { x.add_(1); }, value);
  }
  // Of each replica: those that are ready, one being made, and one that was given. CPUs and virtual devices
  // share their memory.
  const std::int64_t most = (buffer + 2) * 8 * batch;
  for (int replica = 0; replica < num_replicas; ++replica)
    CHECK(memory_stats(TestBackend::device(replica)).in_use_bytes -
              before[static_cast<std::size_t>(replica)] <=
          most + 4096 * num_replicas);
}

TEST_CASE("values are ordered on the stream that is current when they are fetched", "[input]") {
  const int buffer = GENERATE(0, 1);
  OneDeviceStrategy strategy(TestBackend::device());
  auto iterator =
      strategy.distribute_dataset(Dataset::range(64).batch(8), {.per_replica_buffer_size = buffer})
          .iterator();
  const Stream stream(TestBackend::device());
  for (std::int64_t step = 0; step < 8; ++step) {
    const Stream other(TestBackend::device());
    const StreamScope scope(step % 2 == 0 ? StreamRef(stream) : StreamRef(other));
    Tensor value = iterator.next();
    value.add_(1);
    CHECK(value.to_vector<std::int64_t>() == sequence(8 * step + 1, 8 * step + 9));
  }
  CHECK_FALSE(iterator.next_optional());
}

TEST_CASE("passes can be dropped with steps under way", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(most_replicas()));
  const auto dist = strategy.distribute_dataset(Dataset::range(100).repeat().batch(16),
                                                {.per_replica_buffer_size = GENERATE(0, 1, 4)});
  for (int round = 0; round < 5; ++round) {
    std::optional<PerReplica<Tensor>> last;
    {
      auto iterator = dist.iterator();
      for (int step = 0; step < round; ++step) last = iterator.next();
    }
    if (last) CHECK(strategy.gather(*last, 0).to_vector<std::int64_t>().front() == 16 * (round - 1));
  }
}

TEST_CASE("replicas' own datasets go to their devices, or stay on the host", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(2));
  const auto make = [](const InputContext& context) {
    const std::int64_t first = 10 * context.input_pipeline_id();
    return Dataset::range(first, first + 3 - context.input_pipeline_id()).batch(2);
  };
  InputOptions options{.replication_mode = InputReplicationMode::per_replica};
  const auto check = [&](const Device& first) {
    const auto dist = strategy.distribute_datasets_from_function(make, options);
    std::vector<std::vector<Values>> steps;
    for (const auto& value : dist) {
      CHECK(value[0].device() == first);
      steps.push_back(components(value));
    }
    CHECK(steps == std::vector<std::vector<Values>>{{{0, 1}, {10, 11}}, {{2}, {}}});
  };
  check(TestBackend::device());
  options.fetch_to_device = false;
  check("CPU:0");
  options.place_dataset_on_device = true;
  check(TestBackend::device());
}

TEST_CASE("strategies of every kind place input on their own devices", "[input]") {
  const auto dataset = Dataset::range(5).batch(5);
  OneDeviceStrategy one(TestBackend::device());
  const Tensor whole = one.distribute_dataset(dataset).iterator().next();
  CHECK(whole.device() == TestBackend::device());
  CHECK(whole.to_vector<std::int64_t>() == sequence(0, 5));
  CentralStorageStrategy central(TestBackend::devices(2), "CPU:0");
  const PerReplica<Tensor> value = central.distribute_dataset(dataset).iterator().next();
  CHECK(components(value) == std::vector<Values>{{0, 1, 2}, {3, 4}});
  for (int replica = 0; replica < 2; ++replica)
    CHECK(value[replica].device() == TestBackend::device(replica));
}
