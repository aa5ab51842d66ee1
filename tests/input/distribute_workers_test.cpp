// Distributed datasets of several workers: how the data is shared out, and what becomes of the others where
// one worker fails or leaves.
#include <algorithm>
#include <future>
#include <memory>
#include <stdexcept>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/distribute.hpp>
#include <lockstep/input/readers.hpp>

#include "support/input.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"
#include "support/worker_group.hpp"

using namespace lockstep;
using test::components;
using test::host_devices;
using test::on_workers;
using test::says;
using test::sequence;
using test::Values;
using test::worker_target;
using test::WorkerGroup;

using Distributed = DistributedDataset<PerReplica<Tensor>>;
using Steps = std::vector<std::vector<Values>>;

namespace {

/// Each worker's share of a dataset that is split over all replicas.
std::vector<Steps> split(const TypedDataset<Tensor>& dataset, int num_workers, int num_local,
                         const InputOptions& options) {
  const WorkerGroup group(num_workers);
  std::vector<Distributed> datasets;
  for (int worker = 0; worker < num_workers; ++worker)
    datasets.push_back(
        detail::distribute(dataset, worker_target(group, worker, host_devices(num_local)), options));
  return on_workers(num_workers,
                    [&](int worker) { return test::all_steps(datasets[static_cast<std::size_t>(worker)]); });
}

Distributed dealt(const WorkerGroup& group, int worker, const TypedDataset<Tensor>& dataset, int buffer) {
  return detail::distribute_from_function([&](const InputContext&) { return dataset; },
                                          worker_target(group, worker, host_devices(1)),
                                          {.per_replica_buffer_size = buffer});
}

/// Batches 0 1 | 2 3 | ….
TypedDataset<Tensor> pairs() { return Dataset::range(8).batch(2); }

/// The same, but the batch that begins with `bad` throws.
TypedDataset<Tensor> failing(std::int64_t bad) {
  return pairs().map([bad](const Tensor& x) {
    if (x.slice(0, 1).item<std::int64_t>() == bad) throw std::runtime_error("bad");
    return x;
  });
}

/// A dataset whose passes throw where they start.
template <class Exception, class Value>
TypedDataset<Tensor> unopenable(const Value& value) {
  detail::Pipeline pipeline = *pairs().pipeline();
  pipeline.elements = detail::IteratorFactory<detail::BatchHandle>(
      [value](const detail::IterationKey&) -> std::unique_ptr<detail::Iterator<detail::BatchHandle>> {
        throw Exception(value);
      });
  return TypedDataset<Tensor>(std::make_shared<const detail::Pipeline>(std::move(pipeline)));
}

/// What each call of an iterator gives, until it gives nothing.
std::vector<std::string> outcomes(const Distributed& dataset) {
  auto iterator = dataset.iterator();
  std::vector<std::string> result;
  for (bool ended = false; !ended;) {
    try {
      const auto value = iterator.next_optional();
      ended = !value;
      if (value) result.push_back(std::to_string((*value)[0].size()) + " rows");
    } catch (const std::exception& error) {
      result.push_back(error.what());
    }
  }
  return result;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("workers that read everything have steps of the global batch between them", "[input][host]") {
  const std::vector<Steps> off =
      split(Dataset::range(8).batch(8), 2, 2, {.auto_shard_policy = AutoShardPolicy::off});
  CHECK(off[0] == Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}});
  CHECK(off[1] == off[0]);
}

TEST_CASE("workers share out files before batches are split", "[input][host]") {
  std::vector<std::unique_ptr<test::TemporaryFile>> texts;
  std::vector<std::filesystem::path> paths;
  for (int file = 0; file < 3; ++file) {
    texts.push_back(std::make_unique<test::TemporaryFile>(std::string(4, static_cast<char>('a' + file))));
    paths.push_back(texts.back()->path());
  }
  const auto bytes =
      Dataset::from_files(paths, readers::records({.record_bytes = 1})).map([](const Tensor& x) {
        return x.cast(DType::i64).reshape({});
      });
  const AutoShardPolicy policy = GENERATE(AutoShardPolicy::automatic, AutoShardPolicy::file);
  const std::vector<Steps> steps = split(bytes.batch(4), 2, 1, {.auto_shard_policy = policy});
  CHECK(steps[0] == Steps{{{'a', 'a'}}, {{'a', 'a'}}, {{'c', 'c'}}, {{'c', 'c'}}});
  CHECK(steps[1] == Steps{{{'b', 'b'}}, {{'b', 'b'}}, {{}}, {{}}});
  CHECK_THROWS_MATCHES(
      split(Dataset::range(4).batch(4), 2, 1, {.auto_shard_policy = AutoShardPolicy::file}), NotFound,
      says("auto_shard: the dataset does not come from from_files alone", "2 input pipelines"));
}

TEST_CASE("workers that read one shuffled dataset have each row once in every pass", "[input][host]") {
  const InputOptions data{.auto_shard_policy = AutoShardPolicy::data};
  const auto rows_of = [&](const TypedDataset<Tensor>& dataset) {
    Values rows;
    for (const Steps& worker : split(dataset, 2, 2, data))
      for (const auto& step : worker)
        for (const Values& part : step) rows.insert(rows.end(), part.begin(), part.end());
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  const auto shuffled = Dataset::range(64).shuffle(64, 1).batch(8);
  for (int pass = 0; pass < 3; ++pass) CHECK(rows_of(shuffled) == sequence(0, 64));
  CHECK_THROWS_MATCHES(split(Dataset::range(64).shuffle(64).batch(8), 2, 2, data), InvalidArgument,
                       says("Dataset::shuffle: there is no seed", "Pass a seed, the same for all"));
}

TEST_CASE("workers' own shards are split by ceiling slices", "[input][host]") {
  const auto numbers = Dataset::range(8).shard(Dataset::shard_hint, Dataset::shard_hint);
  const std::vector<Steps> steps =
      split(numbers.batch(4), 2, 1, {.auto_shard_policy = AutoShardPolicy::hint});
  CHECK(steps[0] == Steps{{{0, 2}}, {{4, 6}}});
  CHECK(steps[1] == Steps{{{1, 3}}, {{5, 7}}});
}

TEST_CASE("weights are for the replicas of all workers, in their order", "[input][host]") {
  const InputOptions weighted{.auto_shard_policy = AutoShardPolicy::data,
                              .batch_split = BatchSplit::weighted,
                              .batch_weights = {1, 2, 3, 4}};
  const std::vector<Steps> steps = split(Dataset::range(10).batch(10), 2, 2, weighted);
  CHECK(steps[0] == Steps{{{0}, {4, 5}}});
  CHECK(steps[1] == Steps{{{1, 2, 3}, {6, 7, 8, 9}}});
  InputOptions off = weighted;
  off.auto_shard_policy = AutoShardPolicy::off;
  CHECK_THROWS_MATCHES(
      split(Dataset::range(10).batch(10), 2, 2, off), Unsupported,
      says("distribute_dataset: the 2 workers read datasets of their own", "AutoShardPolicy::data"));
}

TEST_CASE("replicas that are not the same number on all workers are refused", "[input][host]") {
  const WorkerGroup group(2);
  detail::InputTarget target = worker_target(group, 0, host_devices(2));
  target.context = InputContext(2, 0, 3);
  const InputOptions data{.auto_shard_policy = AutoShardPolicy::data};
  CHECK_THROWS_MATCHES(detail::distribute(Dataset::range(8).batch(4), target, data), InvalidArgument,
                       says("WorkersStrategy has 3 replicas on 2 workers, but 2 on this one"));
}

TEST_CASE("with other workers nothing is known of a part's rows, and static steps are kept",
          "[input][host]") {
  const WorkerGroup group(2);
  const auto static_batches = Dataset::range(6).batch(4, true);
  const InputOptions data{.auto_shard_policy = AutoShardPolicy::data};
  const auto distributed = detail::distribute(static_batches, worker_target(group, 0, host_devices(2)), data);
  CHECK(distributed.element_spec()[1] == TensorSpec({std::nullopt}, DType::i64));
  CHECK(dealt(group, 0, static_batches, 1).element_spec()[0] == TensorSpec({std::nullopt}, DType::i64));

  const WorkerGroup pair(2);
  const auto steps = on_workers(2, [&](int worker) {
    return test::all_steps(dealt(pair, worker, Dataset::range(2 + 2 * worker).batch(2, true), 1));
  });
  CHECK(steps[0] == Steps{{{0, 1}}, {{}}});
  CHECK(steps[1] == Steps{{{0, 1}}, {{2, 3}}});
}

TEST_CASE("a worker that never had data gives elements like the others'", "[input][host]") {
  const WorkerGroup group(3);
  const auto steps = on_workers(3, [&](int worker) {
    const auto rows = Dataset::from_tensor_slices(
        std::pair{Tensor::zeros({worker == 1 ? 2 : 0, 3}), Tensor::zeros({worker == 1 ? 2 : 0}, DType::u8)});
    const auto elements = rows.map([](const Tensor& x, const Tensor& y) { return std::pair{x, y}; }).batch(2);
    const auto dist = detail::distribute_from_function([&](const InputContext&) { return elements; },
                                                       worker_target(group, worker, host_devices(2)));
    std::vector<Tensor> all;
    for (const auto& [x, y] : dist)
      for (int replica = 0; replica < 2; ++replica) {
        all.push_back(x[replica]);
        all.push_back(y[replica]);
      }
    return all;
  });
  for (std::size_t worker = 0; worker < 3; ++worker) {
    REQUIRE(steps[worker].size() == 4);
    for (std::size_t replica = 0; replica < 2; ++replica) {
      const std::int64_t num_rows = worker == 1 && replica == 0 ? 2 : 0;
      CHECK(steps[worker][2 * replica].shape() == Shape(num_rows, 3));
      CHECK(steps[worker][2 * replica].dtype() == DType::f32);
      CHECK(steps[worker][2 * replica + 1].shape() == Shape(num_rows));
      CHECK(steps[worker][2 * replica + 1].dtype() == DType::u8);
    }
  }
}

TEST_CASE("lengths that only the first element tells are told to all that they are missing",
          "[input][host]") {
  const WorkerGroup group(2);
  const auto messages = on_workers(2, [&](int worker) {
    const auto lists = Dataset::range(2 * worker).batch(2).map([](const Tensor& x) {
      return std::vector{x, x};
    });
    auto iterator = detail::distribute_from_function([&](const InputContext&) { return lists; },
                                                     worker_target(group, worker, host_devices(1)))
                        .iterator();
    return test::message_of([&] { iterator.next(); });
  });
  for (const std::string& message : messages)
    CHECK(has(message, "worker 0 has no data although others have, and cannot make elements without rows"));
}

TEST_CASE("where one worker cannot read, the step fails on all, and all go on after it", "[input][host]") {
  const int buffer = GENERATE(0, 1, 4);
  const WorkerGroup group(3);
  const auto all = on_workers(
      3, [&](int worker) { return outcomes(dealt(group, worker, failing(worker == 1 ? 2 : -1), buffer)); });
  for (std::size_t worker = 0; worker < 3; ++worker) {
    REQUIRE(all[worker].size() == 4);
    for (const std::size_t step : {0, 2, 3}) CHECK(all[worker][step] == "2 rows");
    if (worker == 1)
      CHECK(all[1][1].starts_with("Dataset::map: element 1: bad"));
    else
      CHECK(
          has(all[worker][1], "worker 1 could not read its part of the step: Dataset::map: element 1: bad"));
  }
}

TEST_CASE("after a row that none can read workers still share out each batch", "[input][host]") {
  const int num_local = GENERATE(1, 2);
  const auto dataset = Dataset::range(24)
                           .map([](const Tensor& x) {
                             if (x.item<std::int64_t>() == 9) throw std::runtime_error("bad");
                             return x;
                           })
                           .batch(8);
  const WorkerGroup group(2);
  const auto all = on_workers(2, [&](int worker) {
    Values rows;
    auto iterator = detail::distribute(dataset, worker_target(group, worker, host_devices(num_local)),
                                       {.auto_shard_policy = AutoShardPolicy::data})
                        .iterator();
    for (bool has_ended = false; !has_ended;) {
      try {
        const auto step = iterator.next_optional();
        has_ended = !step;
        if (step)
          for (const Values& part : components(*step)) rows.insert(rows.end(), part.begin(), part.end());
      } catch (const Error&) {
        rows.push_back(-1);
      }
    }
    return rows;
  });
  Values whole;
  for (const Values& rows : all) {
    CHECK(std::count(rows.begin(), rows.end(), -1) == 1);
    whole.insert(whole.end(), rows.begin(), rows.end());
  }
  std::sort(whole.begin(), whole.end());
  Values expected = sequence(0, 24);
  expected[9] = -1;
  expected.push_back(-1);
  std::sort(expected.begin(), expected.end());
  CHECK(whole == expected);
}

TEST_CASE("a dataset that cannot be opened on one worker ends the pass for all", "[input][host]") {
  const int buffer = GENERATE(0, 2);
  const WorkerGroup group(2);
  const auto all = on_workers(2, [&](int worker) {
    return outcomes(
        dealt(group, worker, worker == 0 ? unopenable<std::runtime_error>("nowhere.") : pairs(), buffer));
  });
  CHECK(all[0] == std::vector<std::string>{"nowhere."});
  REQUIRE(all[1].size() == 2);
  CHECK(has(all[1][0], "worker 0 could not read its part of the step: nowhere."));
  CHECK(all[1][1] == "worker 0 has left the pass before step 1.");
}

TEST_CASE("a worker that throws no std::exception does not keep the others waiting", "[input][host]") {
  const WorkerGroup group(2);
  const auto all = on_workers(2, [&](int worker) {
    auto iterator = dealt(group, worker, worker == 0 ? unopenable<int>(7) : pairs(), 1).iterator();
    try {
      return test::message_of([&] { iterator.next(); });
    } catch (int number) {
      return std::to_string(number);
    }
  });
  CHECK(all[0] == "7");
  CHECK(
      has(all[1], "worker 0 could not read its part of the step: an exception that is not a std::exception"));
}

TEST_CASE("a worker that drops its iterator ends the pass for the others", "[input][host]") {
  const int buffer = GENERATE(0, 1, 3);
  const WorkerGroup group(2);
  const auto endless = Dataset::range(2).repeat().batch(2);
  const auto all = on_workers(2, [&](int worker) {
    const Distributed dataset = dealt(group, worker, endless, buffer);
    if (worker == 1) return outcomes(dataset);
    dataset.iterator().next();
    return std::vector<std::string>();
  });
  // What the first worker had made ahead is there for the second; then it ends.
  REQUIRE(all[1].size() >= 2);
  if (buffer == 0) CHECK(all[1].size() == 2);
  for (std::size_t step = 0; step + 1 < all[1].size(); ++step) CHECK(all[1][step] == "2 rows");
  CHECK(has(all[1].back(), "worker 0 has left the pass before step "));
}

TEST_CASE("a worker's own exception comes first where another has left", "[input][host]") {
  const WorkerGroup group(2);
  const auto all = on_workers(2, [&](int worker) {
    const Distributed dataset = dealt(group, worker, worker == 1 ? failing(2) : pairs(), 0);
    if (worker == 1) return outcomes(dataset);
    dataset.iterator().next();
    return std::vector<std::string>();
  });
  REQUIRE(all[1].size() == 2);
  CHECK(has(all[1][1], "Dataset::map: element 1: bad"));  // and with it the pass has ended
}

TEST_CASE("an iterator whose thread waits for another worker can be dropped", "[input][host]") {
  const WorkerGroup group(2);
  const auto endless = Dataset::range(2).repeat().batch(2);
  auto here =
      std::make_unique<DistributedIterator<PerReplica<Tensor>>>(dealt(group, 0, endless, 2).iterator());
  auto there = dealt(group, 1, endless, 0).iterator();  // without a thread: it takes part in `next` alone
  auto taken = std::async(std::launch::async, [&] { return here->next().size(); });
  CHECK(components(there.next()) == std::vector<Values>{{0, 1}});
  CHECK(taken.get() == 1);
  here.reset();
  CHECK(has(test::message_of([&] {
              while (true) there.next();
            }),
            "worker 0 has left the pass before step "));
}

TEST_CASE("workers may stop anywhere, if they do so at the same step", "[input][host]") {
  const int buffer = GENERATE(0, 1, 4);
  const WorkerGroup group(3);
  const auto num_steps = on_workers(3, [&](int worker) {
    const Distributed dataset = dealt(group, worker, Dataset::range(4).repeat().batch(2), buffer);
    std::size_t count = 0;
    for (int pass = 0; pass < 5; ++pass) {
      std::size_t steps = 0;
      for (const auto& value : dataset) {
        static_cast<void>(value);
        ++count;
        if (++steps == 3) break;
      }
    }
    return count;
  });
  CHECK(num_steps == std::vector<std::size_t>{15, 15, 15});
}

TEST_CASE("passes that are under way together are told apart by the order in which they start",
          "[input][host]") {
  const int buffer = GENERATE(0, 1, 2);
  const WorkerGroup group(2);
  const auto all = on_workers(2, [&](int worker) {
    const Distributed one = dealt(group, worker, Dataset::range(4 + 2 * worker).batch(2), buffer);
    const Distributed other = dealt(group, worker, Dataset::range(10, 14).batch(2), buffer);
    auto first = one.iterator(), second = other.iterator(), third = one.iterator();
    std::vector<Values> values(3);
    std::size_t num_ended = 0;
    for (std::size_t i = 0; num_ended < 3; i = (i + 1) % 3) {
      const auto value = (i == 0 ? first : i == 1 ? second : third).next_optional();
      if (!value) ++num_ended;
      for (const Values& part : value ? components(*value) : std::vector<Values>())
        values[i].insert(values[i].end(), part.begin(), part.end());
    }
    return values;
  });
  CHECK(all[0] == std::vector<Values>{sequence(0, 4), sequence(10, 14), sequence(0, 4)});
  CHECK(all[1] == std::vector<Values>{sequence(0, 6), sequence(10, 14), sequence(0, 6)});
}

TEST_CASE("a pass that cannot be started with the others is an error of iterator()", "[input][host]") {
  const WorkerGroup group(2);
  detail::InputTarget target = worker_target(group, 0, host_devices(1));
  target.open_exchange = []() -> std::shared_ptr<detail::StepExchange> {
    throw CollectiveError("no connection");
  };
  const auto dataset = detail::distribute_from_function(
      [](const InputContext&) { return Dataset::range(4).batch(2); }, target);
  CHECK_THROWS_MATCHES(dataset.iterator(), CollectiveError, says("no connection"));
}
