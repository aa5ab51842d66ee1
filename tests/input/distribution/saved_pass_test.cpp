// The states of distributed passes: numbers of replicas and workers that change, and states that are refused.
#include "input/distribution/saved_pass.hpp"

#include <algorithm>
#include <atomic>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/distribute.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/worker_group.hpp"

using namespace lockstep;
using test::components;
using test::host_devices;
using test::on_workers;
using test::says;
using test::Values;
using test::worker_target;
using test::WorkerGroup;

namespace {

using Steps = std::vector<std::vector<Values>>;

template <class Iterator>
Steps rest_of(Iterator& iterator) {
  Steps steps;
  while (const auto value = iterator.next_optional()) steps.push_back(components(*value));
  return steps;
}

Values rows_of(const std::vector<Values>& step) {
  Values rows;
  for (const Values& part : step) rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

/// Elements that were read, of all passes.
TypedDataset<Tensor> counted(std::int64_t n, std::atomic<std::int64_t>& num_read) {
  return Dataset::range(n).map([&num_read](const Tensor& x) {
    ++num_read;
    return x;
  });
}

}  // namespace

TEST_CASE("steps made ahead are not lost, and none is read again", "[input][host]") {
  const int ahead = GENERATE(0, 1, 5);
  MirroredStrategy strategy(host_devices(2));
  std::atomic<std::int64_t> num_read = 0;
  const auto dataset = strategy.distribute_dataset(counted(40, num_read).shuffle(10, 1).batch(4),
                                                   {.per_replica_buffer_size = ahead});
  auto iterator = dataset.iterator();
  for (int i = 0; i < 3; ++i) iterator.next();
  const IteratorState state = iterator.save_state();
  const std::int64_t read_before = num_read;
  const Steps rest = rest_of(iterator);
  CHECK(rest.size() == 7);
  const std::int64_t read_after = num_read - read_before;
  num_read = 0;
  auto restored = dataset.iterator();
  restored.restore_state(state);
  if (ahead == 0) CHECK(num_read == 0);
  CHECK(rest_of(restored) == rest);
  CHECK(num_read <= read_after + 4 * (ahead + 2));  // the thread may have read on before it was counted
  CHECK(num_read <= 40 - 3 * 4);
  CHECK(restored.epoch() == 0);
}

TEST_CASE("rows of tables are in a state as numbers", "[input][host]") {
  MirroredStrategy strategy(host_devices(2));
  const auto images = Dataset::from_tensor_slices(Tensor::zeros({100, 1000})).shuffle(100, 1).batch(10);
  auto iterator = strategy.distribute_dataset(images, {.per_replica_buffer_size = 3}).iterator();
  iterator.next();
  CHECK(iterator.save_state().size() <
        4000);  // an image has as many bytes; most are the random numbers' state
}

TEST_CASE("other numbers of replicas get the same global batches", "[input][host]") {
  const auto numbers = Dataset::range(45).shuffle(20, 3).batch(7);
  MirroredStrategy three(host_devices(3));
  auto iterator = three.distribute_dataset(numbers).iterator();
  iterator.next();
  const IteratorState state = iterator.save_state();
  const Steps rest = rest_of(iterator);
  for (const int num_replicas : {1, 2, 4}) {
    MirroredStrategy strategy(host_devices(num_replicas));
    auto restored = strategy.distribute_dataset(numbers).iterator();
    restored.restore_state(state);
    const Steps steps = rest_of(restored);
    REQUIRE(steps.size() == rest.size());
    for (std::size_t i = 0; i < rest.size(); ++i) CHECK(rows_of(steps[i]) == rows_of(rest[i]));
  }
}

TEST_CASE("passes after a restored one are those that the saved program would have made", "[input][host]") {
  MirroredStrategy strategy(host_devices(1));
  const auto numbers = Dataset::range(9).shuffle(9, 3).batch(9);
  const auto first = strategy.distribute_dataset(numbers);
  const auto rows = [](auto iterator) { return rest_of(iterator); };
  std::vector<Steps> epochs;
  for (int epoch = 0; epoch < 4; ++epoch) {
    auto iterator = first.iterator();
    CHECK(iterator.epoch() == epoch);
    epochs.push_back(rest_of(iterator));
  }
  CHECK(epochs[0] != epochs[1]);
  const auto second = strategy.distribute_dataset(Dataset::range(9).shuffle(9, 3).batch(9));
  auto at_two = second.iterator(2);
  CHECK(at_two.epoch() == 2);
  const IteratorState state = at_two.save_state();
  CHECK(rest_of(at_two) == epochs[2]);
  CHECK(second.iterator().epoch() == 3);
  const auto third = strategy.distribute_dataset(Dataset::range(9).shuffle(9, 3).batch(9));
  auto restored = third.iterator();
  restored.restore_state(state);
  CHECK(restored.epoch() == 2);
  CHECK(rest_of(restored) == epochs[2]);
  CHECK(rows(third.iterator()) == epochs[3]);
  CHECK_THROWS_MATCHES(third.iterator(-1), InvalidArgument, says("DistributedDataset::iterator: epoch -1"));
}

TEST_CASE("with elements dealt to each worker every row that was left comes once", "[input][host]") {
  const int before = GENERATE(1, 2, 3), after = GENERATE(1, 2, 3);
  const auto numbers = Dataset::range(48).map([](const Tensor& x) { return x; });
  const auto pass = [&](const WorkerGroup& group, int worker) {
    auto target = worker_target(group, worker, host_devices(1), /*splits=*/false);
    return detail::distribute(numbers.batch(2), target, {.auto_shard_policy = AutoShardPolicy::data})
        .iterator();
  };
  const WorkerGroup saving(before), restoring(after);
  std::vector<IteratorState> states(static_cast<std::size_t>(before));
  const auto left = on_workers(before, [&](int worker) {
    auto iterator = pass(saving, worker);
    for (int i = 0; i < 3; ++i) iterator.next();
    states[static_cast<std::size_t>(worker)] = iterator.save_state();
    return rest_of(iterator);
  });
  for (const IteratorState& state : states) CHECK(state == states[0]);
  const auto given = on_workers(after, [&](int worker) {
    auto iterator = pass(restoring, worker);
    iterator.restore_state(states[0]);
    return rest_of(iterator);
  });
  const auto all_of = [](const std::vector<Steps>& workers) {
    Values rows;
    for (const Steps& steps : workers)
      for (const auto& step : steps)
        for (const std::int64_t row : rows_of(step)) rows.push_back(row);
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  CHECK(all_of(given) == all_of(left));
}

TEST_CASE("datasets that a function makes go on on as many workers and datasets only", "[input][host]") {
  const auto pass = [&](const WorkerGroup& group, int worker, int num_local) {
    return detail::distribute_from_function([](const InputContext&) { return Dataset::range(8).batch(2); },
                                            worker_target(group, worker, host_devices(num_local)))
        .iterator();
  };
  const WorkerGroup two(2), one(1);
  const auto states = on_workers(2, [&](int worker) { return pass(two, worker, 1).save_state(); });
  CHECK_THROWS_MATCHES(
      pass(one, 0, 1).restore_state(states[0]), InvalidArgument,
      says("the state is of 2 workers, and there are 1 now, but a function makes the datasets"));
  MirroredStrategy strategy(host_devices(2));
  const auto per_replica = strategy.distribute_datasets_from_function(
      [](const InputContext&) { return Dataset::range(8).batch(2); },
      {.replication_mode = InputReplicationMode::per_replica});
  const auto per_worker = strategy.distribute_datasets_from_function(
      [](const InputContext&) { return Dataset::range(8).batch(2); });
  CHECK_THROWS_MATCHES(per_worker.iterator().restore_state(per_replica.iterator().save_state()),
                       InvalidArgument,
                       says("the state is of 2 datasets on a worker, and this strategy has 1"));
  auto a = per_replica.iterator(), b = per_replica.iterator();
  a.next();
  b.restore_state(a.save_state());
  CHECK(rest_of(b) == rest_of(a));
  CHECK_THROWS_MATCHES(
      a.restore_state(Dataset::range(3).iterator().save_state()), InvalidArgument,
      says("the state is of a pass over a dataset, and this one is over a distributed dataset"));
  CHECK_THROWS_MATCHES(
      Dataset::range(3).iterator().restore_state(a.save_state()), InvalidArgument,
      says("the state is of a pass over a distributed dataset, and this one is over a dataset"));
}

TEST_CASE("if one worker cannot save, all say so", "[input][host]") {
  struct Unsaved {
    std::string text;
  };
  const WorkerGroup group(2);
  const auto messages = on_workers(2, [&](int worker) {
    auto iterator =
        detail::distribute_from_function(
            [&](const InputContext& context) {
              const auto numbers = Dataset::range(8).map([](const Tensor& x) { return x; });
              if (context.input_pipeline_id() == 0) return numbers.batch(2);
              return numbers
                  .scan(Unsaved(), [](const Unsaved& state, const Tensor& x) { return std::pair(state, x); })
                  .batch(2);
            },
            worker_target(group, worker, host_devices(1)))
            .iterator();
    return test::message_of([&] { static_cast<void>(iterator.save_state()); });
  });
  CHECK(messages[0].find("worker 1 could not save: save_state: Dataset::scan") != std::string::npos);
  CHECK(messages[1].find("save_state: Dataset::scan") == 0);
}

TEST_CASE("iterators are not saved or restored in replica functions", "[input][host]") {
  MirroredStrategy strategy(host_devices(1));
  auto iterator = strategy.distribute_dataset(Dataset::range(8).batch(2)).iterator();
  const IteratorState state = iterator.save_state();
  CHECK_THROWS_MATCHES(strategy.run([&] { static_cast<void>(iterator.save_state()); }), ContextError,
                       says("DistributedIterator::save_state"));
  CHECK_THROWS_MATCHES(strategy.run([&] { iterator.restore_state(state); }), ContextError,
                       says("DistributedIterator::restore_state"));
  auto moved = std::move(iterator);
  CHECK_THROWS_AS(iterator.save_state(), ContextError);  // NOLINT(bugprone-use-after-move)
  CHECK_THROWS_AS(iterator.restore_state(state), ContextError);
  CHECK_THROWS_AS(iterator.epoch(), ContextError);
}
