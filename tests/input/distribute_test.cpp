#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/distribute.hpp>
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
using Spec = PerReplica<TensorSpec>;

namespace distribute_test {
struct Example {
  Tensor image;
  Tensor label;
};
LOCKSTEP_NEST(Example, image, label)

std::vector<TensorSpec> list(const Spec& spec) { return {spec.begin(), spec.end()}; }

TensorSpec rows(std::optional<std::int64_t> num_rows) { return TensorSpec({num_rows}, DType::i64); }
}  // namespace distribute_test

using distribute_test::list;
using distribute_test::rows;

TEST_CASE("sizes are balanced only where the batch size is known", "[input][host]") {
  MirroredStrategy strategy(host_devices(4));
  const auto batches = Dataset::from_tensor_slices(Tensor::from(sequence(0, 10), {2, 5}));  // rows as batches
  for (const AutoShardPolicy policy : {AutoShardPolicy::off, AutoShardPolicy::data})
    CHECK(all_steps(strategy.distribute_dataset(batches, {.auto_shard_policy = policy})) ==
          Steps{{{0, 1}, {2, 3}, {4}, {}}, {{5, 6}, {7, 8}, {9}, {}}});
  const auto repeated = Dataset::range(5).batch(5).shuffle(1).repeat(2).skip(0).take(2);
  for (const AutoShardPolicy policy : {AutoShardPolicy::off, AutoShardPolicy::file, AutoShardPolicy::hint})
    CHECK(all_steps(strategy.distribute_dataset(repeated, {.auto_shard_policy = policy})) ==
          Steps{{{0, 1}, {2}, {3}, {4}}, {{0, 1}, {2}, {3}, {4}}});
  for (const AutoShardPolicy policy : {AutoShardPolicy::automatic, AutoShardPolicy::data})
    CHECK(all_steps(strategy.distribute_dataset(repeated, {.auto_shard_policy = policy})) ==
          Steps{{{0, 1}, {2, 3}, {4}, {}}, {{0, 1}, {2, 3}, {4}, {}}});
}

TEST_CASE("range-for takes the values apart", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto dist = strategy.distribute_dataset(
      Dataset::from_tensor_slices(vector_of(sequence(0, 5)), vector_of(sequence(5, 10))).batch(4));
  Values sizes;
  for (auto [x, y] : dist) sizes.push_back(x[0].size() + x[1].size() + 100 * (y[0].size() + y[1].size()));
  for (const auto& [x, y] : dist) sizes.push_back(x[0].size() + y[1].size());
  CHECK(sizes == Values{404, 101, 4, 1});
}

TEST_CASE("infinite datasets go on", "[input][host]") {
  MirroredStrategy strategy(host_devices(3));
  std::int64_t steps = 0;
  for (const auto& value : strategy.distribute_dataset(Dataset::range(4).batch(4).repeat())) {
    CHECK(components(value) == std::vector<Values>{{0, 1}, {2, 3}, {}});
    if (++steps == 100) break;
  }
  CHECK(steps == 100);
}

TEST_CASE("a shuffled dataset has another order each epoch, with every row once", "[input][host]") {
  MirroredStrategy strategy(host_devices(3));
  const auto dist = strategy.distribute_dataset(Dataset::range(40).shuffle(40, 5).batch(7));
  std::set<Values> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    Values order;
    for (const auto& step : all_steps(dist))
      for (const Values& component : step) order.insert(order.end(), component.begin(), component.end());
    orders.insert(order);
    std::sort(order.begin(), order.end());
    CHECK(order == sequence(0, 40));
  }
  CHECK(orders.size() == 3);
}

TEST_CASE("one device, and the default strategy, take elements whole", "[input][host]") {
  OneDeviceStrategy one("CPU:2");
  const auto dist =
      one.distribute_dataset(Dataset::range(5).batch(3), {.auto_shard_policy = AutoShardPolicy::off});
  CHECK(all_steps(dist) == Steps{{{0, 1, 2}}, {{3, 4}}});
  const Tensor whole = dist.iterator().next();
  CHECK(whole.device() == Device("CPU:2"));
  CHECK(all_steps(one.distribute_dataset(Dataset::range(2))) == Steps{{{0}}, {{1}}});
  CHECK(all_steps(get_strategy().distribute_dataset(Dataset::range(2))) == Steps{{{0}}, {{1}}});
}

TEST_CASE("components that happen to be equal are still one for each replica", "[input][host]") {
  MirroredStrategy two(host_devices(2)), one(host_devices(1));
  const auto nothing = Dataset::from_tensor_slices(Tensor::zeros({1, 0, 3}));  // a batch without rows
  const PerReplica<Tensor> value =
      two.distribute_dataset(nothing, {.fetch_to_device = false}).iterator().next();
  CHECK(value.size() == 2);
  CHECK_FALSE(value.is_same_object());
  CHECK(value[1].shape() == Shape(0, 3));
  CHECK(one.distribute_dataset(nothing).iterator().next().is_same_object());
}

TEST_CASE("structs are distributed as one value", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto dist = strategy.distribute_dataset(
      Dataset::from_tensor_slices(
          distribute_test::Example{vector_of(sequence(0, 4)), vector_of(sequence(4, 8))})
          .batch(4));
  const PerReplica<distribute_test::Example> value = dist.iterator().next();
  CHECK(value[1].image.to_vector<std::int64_t>() == Values{2, 3});
  CHECK(value[1].label.to_vector<std::int64_t>() == Values{6, 7});
  const auto [image, label] = dist.element_spec();
  CHECK(list(image) == std::vector{rows({}), rows({})});
}

TEST_CASE("the element spec knows the rows of a part where all parts have that many", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto spec_of = [&](const TypedDataset<Tensor>& dataset) {
    return list(strategy.distribute_dataset(dataset).element_spec());
  };
  CHECK(spec_of(Dataset::range(8).batch(4, true)) == std::vector{rows(2), rows(2)});
  CHECK(spec_of(Dataset::range(8).batch(4)) == std::vector{rows({}), rows({})});
  CHECK(spec_of(Dataset::range(8).batch(3, true)) == std::vector{rows({}), rows({})});

  const auto dealt = [&](bool drop_remainder) {
    return list(strategy
                    .distribute_datasets_from_function(
                        [=](const InputContext&) { return Dataset::range(8).batch(4, drop_remainder); })
                    .element_spec());
  };
  CHECK(dealt(true) == std::vector{rows(4), rows(4)});
  CHECK(dealt(false) == std::vector{rows({}), rows({})});

  const auto nested =
      Dataset::from_tensor_slices(std::pair{Tensor::zeros({6, 5}), std::vector{Tensor::zeros({6})}});
  auto iterator = strategy.distribute_dataset(nested.batch(2, true)).iterator();
  const std::pair<Spec, std::vector<Spec>> spec = iterator.element_spec();
  CHECK(spec.first[1] == TensorSpec({1, 5}, DType::f32));
  CHECK(spec.second.at(0)[0] == TensorSpec({1}, DType::f32));
}

TEST_CASE("options that contradict each other are refused", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto dataset = Dataset::range(8).batch(4);
  const auto make = [](const InputContext&) { return Dataset::range(8).batch(4); };
  const InputOptions negative{.per_replica_buffer_size = -1};
  CHECK_THROWS_MATCHES(strategy.distribute_dataset(dataset, negative), InvalidArgument,
                       says("distribute_dataset: per_replica_buffer_size is -1"));
  CHECK_THROWS_MATCHES(strategy.distribute_datasets_from_function(make, negative), InvalidArgument,
                       says("distribute_datasets_from_function: per_replica_buffer_size is -1"));
  CHECK_NOTHROW(strategy.distribute_dataset(dataset, {.per_replica_buffer_size = 0}));

  const InputOptions placed{.fetch_to_device = false, .place_dataset_on_device = true};
  CHECK_THROWS_MATCHES(strategy.distribute_datasets_from_function(make, placed), InvalidArgument,
                       says("place_dataset_on_device needs", "per_worker", "per_replica"));
  const InputOptions fetched{.replication_mode = InputReplicationMode::per_replica,
                             .place_dataset_on_device = true};
  CHECK_THROWS_MATCHES(strategy.distribute_datasets_from_function(make, fetched), InvalidArgument,
                       says("place_dataset_on_device and fetch_to_device", "fetch_to_device = false"));

  const InputOptions per_replica{.replication_mode = InputReplicationMode::per_replica};
  CHECK_THROWS_MATCHES(strategy.distribute_dataset(dataset, per_replica), Unsupported,
                       says("distribute_dataset: one dataset cannot be made for each replica"));
  CHECK_THROWS_MATCHES(strategy.distribute_dataset(dataset, placed), InvalidArgument,
                       says("distribute_dataset: place_dataset_on_device needs"));
  OneDeviceStrategy one("CPU:0");
  CHECK_THROWS_MATCHES(one.distribute_datasets_from_function(make, per_replica), Unsupported,
                       says("OneDeviceStrategy does not take a dataset for each replica", "per_worker"));
}

TEST_CASE("a function can make a dataset for each replica", "[input][host]") {
  MirroredStrategy strategy({"CPU:3", "CPU:1"});
  std::vector<int> ids;
  const auto make = [&](const InputContext& context) {
    ids.push_back(context.input_pipeline_id());
    CHECK(context.num_input_pipelines() == 2);
    CHECK(context.num_replicas_in_sync() == 2);
    const std::int64_t first = 10 * context.input_pipeline_id();
    return Dataset::range(first, first + 3 - context.input_pipeline_id()).batch(2);
  };
  const auto dist = strategy.distribute_datasets_from_function(
      make, {.fetch_to_device = false, .replication_mode = InputReplicationMode::per_replica});
  CHECK(ids == std::vector{0, 1});
  CHECK(all_steps(dist) == Steps{{{0, 1}, {10, 11}}, {{2}, {}}});
  CHECK(dist.iterator().next()[0].device() == Device("CPU:0"));

  const auto placed =
      strategy.distribute_datasets_from_function(make, {.fetch_to_device = false,
                                                        .replication_mode = InputReplicationMode::per_replica,
                                                        .place_dataset_on_device = true});
  CHECK(placed.iterator().next()[0].device() == Device("CPU:3"));
}

TEST_CASE("datasets of one function have one structure", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto make = [](const InputContext& context) {
    return Dataset::from_tensor_slices(
        std::vector<Tensor>(static_cast<std::size_t>(context.input_pipeline_id()) + 1, Tensor::zeros({2})));
  };
  CHECK_THROWS_MATCHES(strategy.distribute_datasets_from_function(
                           make, {.replication_mode = InputReplicationMode::per_replica}),
                       InvalidArgument, says("replica 1's dataset have 2 components", "replica 0's 1"));

  const InputOptions options{.replication_mode = InputReplicationMode::per_replica};
  const auto of_dtype = [](const InputContext& context) {
    const DType dtype = context.input_pipeline_id() == 0 ? DType::f64 : DType::f32;
    return Dataset::from_tensor_slices(Tensor::zeros({2}, dtype));
  };
  CHECK_THROWS_MATCHES(strategy.distribute_datasets_from_function(of_dtype, options), InvalidArgument,
                       says("component 0 of replica 1's elements is [] float32", "replica 0's [] float64"));

  MirroredStrategy three(host_devices(3));
  const auto of_two_dtypes = [](const InputContext& context) {
    const DType dtype = context.input_pipeline_id() == 1 ? DType::i32 : DType::f64;
    const auto rows = Dataset::from_tensor_slices(Tensor::zeros({2}, dtype));
    return context.input_pipeline_id() == 0 ? rows.map([](const Tensor& x) { return x; }) : rows;
  };
  CHECK_THROWS_MATCHES(three.distribute_datasets_from_function(of_two_dtypes, options), InvalidArgument,
                       says("component 0 of replica 2's elements is [] float64", "replica 1's [] int32"));
  const auto made_of_two_dtypes = [&](const InputContext& context) {
    return of_two_dtypes(context).map([](const Tensor& x) { return x; });
  };
  auto steps = three.distribute_datasets_from_function(made_of_two_dtypes, options).iterator();
  CHECK_THROWS_MATCHES(
      steps.next(), InvalidArgument,
      says("component 0 is [] int32 on replica 1, but [] float64 on replica 0", "the same dtypes"));

  using Named = std::map<std::string, Tensor>;
  const auto named = [](const InputContext& context) {
    return Dataset::from_tensor_slices(
        Named{{context.input_pipeline_id() == 0 ? "a" : "b", Tensor::zeros({2})}});
  };
  CHECK_THROWS_MATCHES(strategy.distribute_datasets_from_function(named, options), InvalidArgument,
                       says("replica 1's dataset have the structure {b: *}", "those of replica 0's {a: *}"));
  const auto made = [&](const InputContext& context) {
    return named(context).map([](const Named& element) { return element; });
  };
  auto iterator = strategy.distribute_datasets_from_function(made, options).iterator();
  CHECK_THROWS_MATCHES(iterator.next(), InvalidArgument,
                       says("replica 1's dataset have the structure {b: *}", "those of replica 0's {a: *}"));
}

TEST_CASE("where one replica's dataset throws, those of the others go on too", "[input][host]") {
  MirroredStrategy strategy(host_devices(3));
  const auto make = [](const InputContext& context) {
    return Dataset::range(3)
        .map([id = context.input_pipeline_id()](const Tensor& x) {
          if (x.item<std::int64_t>() == 1 && id != 1) throw std::runtime_error(id == 0 ? "first" : "last");
          return x;
        })
        .batch(1);
  };
  auto iterator =
      strategy
          .distribute_datasets_from_function(make, {.replication_mode = InputReplicationMode::per_replica})
          .iterator();
  CHECK(components(iterator.next()) == std::vector<Values>{{0}, {0}, {0}});
  CHECK_THROWS_MATCHES(iterator.next(), Error, says("element 1: first"));
  CHECK(components(iterator.next()) == std::vector<Values>{{2}, {2}, {2}});
  CHECK_FALSE(iterator.next_optional());
}

TEST_CASE("an iterator that was moved from says so", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  auto iterator = strategy.distribute_dataset(Dataset::range(4).batch(2)).iterator();
  auto moved = std::move(iterator);
  CHECK_THROWS_MATCHES(iterator.next(), ContextError,
                       says("DistributedIterator: used after it was moved from"));
  CHECK_THROWS_MATCHES(iterator.element_spec(), ContextError,
                       says("DistributedIterator: used after it was moved from"));
  CHECK(components(moved.next()) == std::vector<Values>{{0}, {1}});
}

TEST_CASE("datasets are distributed outside replica functions and other strategies' scopes",
          "[input][host]") {
  MirroredStrategy strategy(host_devices(2)), other({"CPU:2", "CPU:3"});
  const auto dataset = Dataset::range(4).batch(2);
  const auto make = [](const InputContext&) { return Dataset::range(4).batch(2); };
  const auto scope = other.scope();
  CHECK_THROWS_MATCHES(strategy.distribute_dataset(dataset), ContextError,
                       says("distribute_dataset", "another strategy"));
  CHECK_THROWS_MATCHES(strategy.distribute_datasets_from_function(make), ContextError,
                       says("another strategy"));
  CHECK_THROWS_MATCHES(strategy.make_numpy_dataset(vector_of({1})), ContextError, says("make_numpy_dataset"));
  CHECK_THROWS_MATCHES(strategy.make_numpy_dataset("none.npy"), ContextError, says("make_numpy_dataset"));
}
