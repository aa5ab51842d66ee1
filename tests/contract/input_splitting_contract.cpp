// Batches, split over the replicas of one worker or dealt to them whole, arrive on their devices.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/delivered.hpp"
#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/test_backend.hpp"

using namespace lockstep;
using test::delivered;
using test::says;
using test::sequence;
using test::TestBackend;
using test::Values;
using test::vector_of;

using Steps = std::vector<std::vector<Values>>;

namespace {

/// Replicas on devices of their own.
class Replicas {
 public:
  explicit Replicas(int n) : devices(TestBackend::devices(n)), strategy(devices) {}
  /// The steps of a dataset that is split over them.
  Steps split(const TypedDataset<Tensor>& dataset, const InputOptions& options = {}) {
    return delivered(strategy.distribute_dataset(dataset, options), devices);
  }
  /// The steps of a dataset that a function makes.
  Steps deal(const TypedDataset<Tensor>& dataset) {
    return delivered(strategy.distribute_datasets_from_function([&](const InputContext&) { return dataset; }),
                     devices);
  }

  const std::vector<Device> devices;
  MirroredStrategy strategy;
};

}  // namespace

TEST_CASE("split-even: a batch is split in halves", "[input][conformance]") {
  Replicas replicas(2);
  CHECK(replicas.split(Dataset::range(8).batch(4)) == Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}});
}

TEST_CASE("split-32-by-5: every batch splits 7 7 7 7 4", "[input][conformance]") {
  Replicas replicas(5);
  const Steps steps = replicas.split(Dataset::range(1024).batch(32));
  REQUIRE(steps.size() == 32);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const auto first = static_cast<std::int64_t>(32 * step);
    CHECK(steps[step] == std::vector<Values>{sequence(first, first + 7), sequence(first + 7, first + 14),
                                             sequence(first + 14, first + 21),
                                             sequence(first + 21, first + 28),
                                             sequence(first + 28, first + 32)});
  }
}

TEST_CASE("split-4-by-3: the last replica gets no rows", "[input][conformance]") {
  Replicas replicas(3);
  CHECK(replicas.split(Dataset::range(8).batch(4)) == Steps{{{0, 1}, {2, 3}, {}}, {{4, 5}, {6, 7}, {}}});
}

TEST_CASE("split-tiny-tail: a partial batch is split afresh", "[input][conformance]") {
  Replicas replicas(4);
  CHECK(replicas.split(Dataset::range(34).batch(32)) ==
        Steps{{sequence(0, 8), sequence(8, 16), sequence(16, 24), sequence(24, 32)}, {{32}, {33}, {}, {}}});
}

TEST_CASE("split-unbatched: scalars cannot be split", "[input][conformance]") {
  MirroredStrategy strategy(TestBackend::devices(4));
  CHECK_THROWS_MATCHES(strategy.distribute_dataset(Dataset::range(1024)), InvalidArgument,
                       says("distribute_dataset: component 0", "[] int64", "MirroredStrategy", "4 replicas",
                            "Batch the dataset first"));
}

TEST_CASE("split-nested: nests keep their structure", "[input][conformance]") {
  Replicas replicas(2);
  const Tensor x = vector_of(sequence(0, 8)), above = vector_of(sequence(1, 9));
  const auto dataset =
      Dataset::from_tensor_slices(std::pair{x, std::map<std::string, Tensor>{{"c", above}}}).batch(4);
  auto iterator = replicas.strategy.distribute_dataset(dataset).iterator();
  const auto [a, b] = iterator.next();
  CHECK(delivered(a, replicas.devices) == std::vector<Values>{{0, 1}, {2, 3}});
  CHECK(delivered(b.at("c"), replicas.devices) == std::vector<Values>{{1, 2}, {3, 4}});
}

TEST_CASE("from-function-uneven: a last step is filled with empty batches, or dropped",
          "[input][conformance]") {
  Replicas replicas(2);
  CHECK(replicas.deal(Dataset::range(9).batch(2)) == Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {}}});
  CHECK(replicas.deal(Dataset::range(9).batch(2, true)) == Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}});
}

TEST_CASE("static-step-dropped: a step of static shapes is not padded", "[input][conformance]") {
  Replicas replicas(2);
  const Steps two{{sequence(0, 4), sequence(4, 8)}, {sequence(8, 12), sequence(12, 16)}};
  CHECK(replicas.deal(Dataset::range(20).batch(4, true)) == two);
  Steps three = two;
  three.push_back({sequence(16, 20), {}});
  CHECK(replicas.deal(Dataset::range(20).batch(4)) == three);
}

TEST_CASE("iterate-twice: a second pass is fresh", "[input][conformance]") {
  Replicas replicas(2);
  int calls = 0;
  const auto dist = replicas.strategy.distribute_datasets_from_function([&](const InputContext& context) {
    ++calls;
    CHECK(context.num_input_pipelines() == 1);
    CHECK(context.input_pipeline_id() == 0);
    CHECK(context.num_replicas_in_sync() == 2);
    CHECK(&get_strategy() == &replicas.strategy);
    return Dataset::range(10);
  });
  for (int pass = 0; pass < 2; ++pass) {
    auto iterator = dist.iterator();
    for (std::int64_t step = 0; step < 5; ++step)
      CHECK(delivered(iterator.next(), replicas.devices) == std::vector<Values>{{2 * step}, {2 * step + 1}});
    CHECK_THROWS_MATCHES(iterator.next(), OutOfRange,
                         says("the dataset has ended after 5 steps", "iterator()"));
    CHECK_THROWS_AS(iterator.next(), OutOfRange);
    CHECK_FALSE(iterator.next_optional());
  }
  CHECK(calls == 1);
}

TEST_CASE("balanced-empty-sizes: fewer rows than replicas", "[input][conformance]") {
  Replicas replicas(5);
  const Steps expected{{{0}, {1}, {2}, {3}, {}}, {{4}, {5}, {6}, {7}, {}}};
  for (const AutoShardPolicy policy : {AutoShardPolicy::off, AutoShardPolicy::file})
    CHECK(replicas.split(Dataset::range(8).batch(4), {.auto_shard_policy = policy}) == expected);
}

TEST_CASE("balanced-partial: a short last batch is filled front to back", "[input][conformance]") {
  Replicas replicas(2);
  const InputOptions off{.auto_shard_policy = AutoShardPolicy::off};
  CHECK(replicas.split(Dataset::range(5).batch(4), off) == Steps{{{0, 1}, {2, 3}}, {{4}, {}}});
  CHECK(replicas.split(Dataset::range(14).batch(8), off) ==
        Steps{{sequence(0, 4), sequence(4, 8)}, {sequence(8, 12), sequence(12, 14)}});
  CHECK(replicas.split(Dataset::range(14).batch(8)) ==
        Steps{{sequence(0, 4), sequence(4, 8)}, {sequence(8, 11), sequence(11, 14)}});
}

TEST_CASE("value-context: a replica's part of the whole", "[input][conformance]") {
  Replicas replicas(4);
  const std::vector<Device>& devices = replicas.devices;
  const auto part = replicas.strategy.distribute_values_from_function([&](const ValueContext& context) {
    const int id = context.replica_id_in_sync_group();
    return Tensor::scalar(1.0 * id / context.num_replicas_in_sync())
        .to(devices[static_cast<std::size_t>(id)]);
  });
  CHECK(part[2].item<double>() == 0.5);
  for (int replica = 0; replica < 4; ++replica) {
    CHECK(part[replica].dtype() == DType::f64);
    CHECK(part[replica].device() == devices[static_cast<std::size_t>(replica)]);
  }
}

TEST_CASE("elements without tensors are batched and passed to every replica", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(2));
  const auto policy = GENERATE(AutoShardPolicy::automatic, AutoShardPolicy::off);
  const auto num_steps = [&](const auto& elements) {
    int count = 0;
    for (const auto& step : strategy.distribute_dataset(elements.batch(2), {.auto_shard_policy = policy})) {
      static_cast<void>(step);
      ++count;
    }
    return count;
  };
  const auto numbers = Dataset::range(5);
  CHECK(num_steps(numbers.map([](const Tensor&) { return std::optional<Tensor>(); })) == 3);
  CHECK(num_steps(numbers.map([](const Tensor&) { return std::vector<Tensor>(); })) == 3);
  CHECK(num_steps(numbers.map([](const Tensor&) { return std::map<std::string, Tensor>(); })) == 3);
  CHECK(num_steps(Dataset::zip(numbers, numbers.map([](const Tensor&) { return std::vector<Tensor>(); }))) ==
        3);
}

TEST_CASE("replicas of one step have elements of one dtype, also where one dataset is dealt", "[input]") {
  MirroredStrategy strategy(TestBackend::devices(2));
  const auto mixed = Dataset::range(4).map(
      [](const Tensor& x) { return x.item<std::int64_t>() == 1 ? x.cast(DType::f32) : x; });
  auto iterator =
      strategy.distribute_datasets_from_function([&](const InputContext&) { return mixed.batch(1); })
          .iterator();
  CHECK_THROWS_MATCHES(iterator.next(), CollectiveMismatch,
                       says("component 0 is [1] float32 on replica 1, but [1] int64 on replica 0"));
  CHECK(test::components(iterator.next()) == std::vector<Values>{{2}, {3}});
  CHECK_FALSE(iterator.next_optional());
}
