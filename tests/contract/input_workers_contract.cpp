// Workers in step: each one's share of the data arrives on its devices, and the data ends for all at once.
// The workers are threads of this process, which share devices where there are few.
#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/distribute.hpp>
#include <lockstep/input/readers.hpp>

#include "support/captured_stderr.hpp"
#include "support/delivered.hpp"
#include "support/matchers.hpp"
#include "support/npy_file.hpp"
#include "support/test_backend.hpp"
#include "support/worker_group.hpp"

using namespace lockstep;
using test::components;
using test::delivered;
using test::says;
using test::sequence;
using test::TestBackend;
using test::Values;
using test::WorkerGroup;

using Distributed = DistributedDataset<PerReplica<Tensor>>;
using Step = std::vector<std::vector<Values>>;  // of each worker the components
using Steps = std::vector<Step>;
using OwnSteps = std::vector<std::vector<Values>>;  // of one worker, the components of each step

namespace {

/// Workers with as many replicas each.
class Workers {
 public:
  Workers(int num_workers, int num_local) : group_(num_workers) {
    const int num_devices = std::min(TestBackend::num_devices(), num_workers * num_local);
    for (int replica = 0; replica < num_workers * num_local; ++replica) {
      if (replica % num_local == 0) devices_.emplace_back();
      devices_.back().push_back(TestBackend::device(replica % std::max(num_devices, 1)));
    }
  }
  int size() const { return static_cast<int>(devices_.size()); }
  detail::InputTarget target(int worker, bool splits = true) const {
    return test::worker_target(group_, worker, devices(worker), splits);
  }

  /// One dataset, split over all replicas, or else dealt whole.
  std::vector<Distributed> distribute(const TypedDataset<Tensor>& dataset, bool splits,
                                      const InputOptions& options = {}) const {
    std::vector<Distributed> result;
    for (int worker = 0; worker < size(); ++worker)
      result.push_back(detail::distribute(dataset, target(worker, splits), options));
    return result;
  }
  /// What fn(InputContext) makes.
  template <class F>
  std::vector<Distributed> from_function(const F& fn) const {
    std::vector<Distributed> result;
    for (int worker = 0; worker < size(); ++worker)
      result.push_back(detail::distribute_from_function(fn, target(worker)));
    return result;
  }

  /// One pass: at most so many steps, as values.
  std::vector<std::vector<PerReplica<Tensor>>> values(const std::vector<Distributed>& datasets,
                                                      std::size_t max_steps) const {
    return test::on_workers(size(), [&](int worker) {
      std::vector<PerReplica<Tensor>> steps;
      for (const auto& value : datasets[static_cast<std::size_t>(worker)]) {
        steps.push_back(value);
        if (steps.size() == max_steps) break;
      }
      return steps;
    });
  }
  /// One pass; checks placement and dtypes, and that all workers have as many steps.
  Steps steps(const std::vector<Distributed>& datasets, std::size_t max_steps = 1000) const {
    const auto all = values(datasets, max_steps);
    Steps result(all[0].size());
    for (int worker = 0; worker < size(); ++worker) {
      const auto& of_worker = all[static_cast<std::size_t>(worker)];
      REQUIRE(of_worker.size() == result.size());
      for (std::size_t step = 0; step < result.size(); ++step)
        result[step].push_back(delivered(of_worker[step], devices(worker)));
    }
    return result;
  }

 private:
  const std::vector<Device>& devices(int worker) const { return devices_[static_cast<std::size_t>(worker)]; }

  WorkerGroup group_;
  std::vector<std::vector<Device>> devices_;
};

/// The numbers of rows of one worker's steps, one after the other.
Values sizes(const Steps& steps, std::size_t worker) {
  Values result;
  for (const Step& step : steps)
    for (const Values& rows : step[worker]) result.push_back(static_cast<std::int64_t>(rows.size()));
  return result;
}

}  // namespace

TEST_CASE("workers-of-different-length: the data ends once, for all", "[input][conformance]") {
  const Workers workers(2, 2);
  const auto datasets = workers.from_function(
      [](const InputContext& context) { return Dataset::range(8 + context.input_pipeline_id()).batch(2); });
  const Steps expected{
      {{{0, 1}, {2, 3}}, {{0, 1}, {2, 3}}}, {{{4, 5}, {6, 7}}, {{4, 5}, {6, 7}}}, {{{}, {}}, {{8}, {}}}};
  for (int pass = 0; pass < 2; ++pass) CHECK(workers.steps(datasets) == expected);
}

TEST_CASE("a step that one worker cannot read is left out on all", "[input]") {
  const Workers workers(2, 2);
  const auto datasets = workers.from_function([](const InputContext& context) {
    const bool fails = context.input_pipeline_id() == 1;
    return Dataset::range(12).batch(2).map([fails](const Tensor& x) {
      if (fails && x.slice(0, 1).item<std::int64_t>() == 6) throw std::runtime_error("bad");
      return x;
    });
  });
  const auto all = test::on_workers(2, [&](int worker) {
    auto iterator = datasets[static_cast<std::size_t>(worker)].iterator();
    OwnSteps steps;
    for (int step = 0; step < 3; ++step) {
      const std::string error = test::message_of([&] { steps.push_back(components(iterator.next())); });
      if (!error.empty()) steps.emplace_back();
    }
    return steps;
  });
  for (const auto& steps : all) CHECK(steps == OwnSteps{{{0, 1}, {2, 3}}, {}, {{8, 9}, {10, 11}}});
}

TEST_CASE("two-workers-partial: a partial batch is split, then shared out", "[input][conformance]") {
  const Workers workers(2, 1);
  const InputOptions data{.auto_shard_policy = AutoShardPolicy::data};
  CHECK(workers.steps(workers.distribute(Dataset::range(14).batch(8), true, data)) ==
        Steps{{{{0, 1, 2, 3}}, {{4, 5, 6, 7}}}, {{{8, 9, 10}}, {{11, 12, 13}}}});
}

TEST_CASE("slices are dealt to the workers in turn", "[input]") {
  const InputOptions data{.auto_shard_policy = AutoShardPolicy::data};
  const auto split = [&](std::int64_t num_rows, std::int64_t batch, int num_workers, int num_local) {
    const Workers workers(num_workers, num_local);
    return workers.steps(workers.distribute(Dataset::range(num_rows).batch(batch), true, data));
  };
  CHECK(split(8, 8, 2, 2) == Steps{{{{0, 1}, {4, 5}}, {{2, 3}, {6, 7}}}});
  CHECK(split(6, 8, 2, 2) == Steps{{{{0, 1}, {4, 5}}, {{2, 3}, {}}}});
  CHECK(split(5, 4, 2, 2) == Steps{{{{0}, {2}}, {{1}, {3}}}, {{{4}, {}}, {{}, {}}}});
  CHECK(split(9, 4, 3, 1) ==
        Steps{{{{0, 1}}, {{2, 3}}, {{}}}, {{{4, 5}}, {{6, 7}}, {{}}}, {{{8}}, {{}}, {{}}}});
}

TEST_CASE("two-workers-from-function-sum: each worker's function makes its share", "[input][conformance]") {
  const Workers workers(2, 1);
  const auto datasets = workers.from_function([](const InputContext& context) {
    return Dataset::range(100)
        .repeat()
        .batch(context.get_per_replica_batch_size(10))
        .shard(context.num_input_pipelines(), context.input_pipeline_id());
  });
  const Step first = workers.steps(datasets, 1).at(0);
  const auto sum = [&](std::size_t worker) {
    return std::accumulate(first[worker][0].begin(), first[worker][0].end(), std::int64_t{0});
  };
  CHECK(sum(0) == 10);
  CHECK(sum(1) == 35);
}

TEST_CASE("P20 of two shards of one row one has it, and the other ends at once", "[input]") {
  const auto shard = [](const InputContext& context) {
    return Dataset::range(1).batch(1).shard(2, context.input_pipeline_id());
  };
  const Workers together(2, 1);
  CHECK(together.steps(together.from_function(shard)) == Steps{{{{0}}, {{}}}});

  const auto alone = [&](int index) {
    const Workers worker(1, 1);
    return worker.steps(
        worker.from_function([&](const InputContext&) { return shard(InputContext(2, index, 2)); }));
  };
  CHECK(alone(0) == Steps{{{{0}}}});
  CHECK(alone(1).empty());
}

TEST_CASE("autoshard-auto-off: by data, or not at all", "[input][conformance]") {
  const Workers workers(2, 1);
  const auto dealt = [&](AutoShardPolicy policy) {
    std::vector<Distributed> datasets;
    test::captured_stderr(
        [&] { datasets = workers.distribute(Dataset::range(4), false, {.auto_shard_policy = policy}); });
    return workers.steps(datasets);
  };
  CHECK(dealt(AutoShardPolicy::automatic) == Steps{{{{0}}, {{1}}}, {{{2}}, {{3}}}});
  CHECK(dealt(AutoShardPolicy::off) == Steps{{{{0}}, {{0}}}, {{{1}}, {{1}}}, {{{2}}, {{2}}}, {{{3}}, {{3}}}});
}

TEST_CASE("autoshard-uneven: every other batch", "[input][conformance]") {
  const Workers workers(2, 2);
  const InputOptions data{.auto_shard_policy = AutoShardPolicy::data};
  CHECK(workers.steps(workers.distribute(Dataset::range(9).batch(2), false, data)) ==
        Steps{{{{0, 1}, {4, 5}}, {{2, 3}, {6, 7}}}, {{{8}, {}}, {{}, {}}}});
}

TEST_CASE("balanced-7-2-2: the size cycles of two workers with two replicas", "[input][conformance]") {
  const Workers workers(2, 2);
  const InputOptions off{.auto_shard_policy = AutoShardPolicy::off};
  const Steps steps = workers.steps(workers.distribute(Dataset::range(14).batch(7), true, off));
  CHECK(sizes(steps, 0) == Values{2, 2, 2, 1, 2, 2, 2, 1});
  CHECK(sizes(steps, 1) == Values{2, 1, 2, 2, 2, 1, 2, 2});
  CHECK(steps[1] == Step{{{4, 5}, {6}}, {{3, 4}, {5, 6}}});
}

TEST_CASE("balanced-4-3-1: the size cycles of three workers with one replica", "[input][conformance]") {
  const Workers workers(3, 1);
  const InputOptions off{.auto_shard_policy = AutoShardPolicy::off};
  const Steps steps = workers.steps(workers.distribute(Dataset::range(4).batch(4), true, off));
  CHECK(sizes(steps, 0) == Values{2, 1, 1});
  CHECK(sizes(steps, 1) == Values{1, 1, 2});
  CHECK(sizes(steps, 2) == Values{1, 2, 1});
}

TEST_CASE("shard-files: each worker reads its share of the files", "[input][conformance]") {
  std::vector<std::unique_ptr<test::TemporaryFile>> texts;
  std::vector<std::filesystem::path> paths;
  for (int file = 0; file < 10; ++file) {
    std::string text;
    for (int line = 0; line < 10; ++line) text += std::to_string(file) + "." + std::to_string(line) + "\n";
    texts.push_back(std::make_unique<test::TemporaryFile>(text));
    paths.push_back(texts.back()->path());
  }
  const Workers workers(5, 1);
  const auto datasets = workers.distribute(Dataset::from_files(paths, readers::lines()), false,
                                           {.auto_shard_policy = AutoShardPolicy::file});
  std::string all;
  const auto lines = workers.values(datasets, 1000);
  for (const PerReplica<Tensor>& line : lines[0]) {
    CHECK(line[0].dtype() == DType::u8);
    CHECK(line[0].device() == TestBackend::device());
    all += readers::text(line[0].to("CPU:0")) + " ";
  }
  CHECK(all == "0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 5.0 5.1 5.2 5.3 5.4 5.5 5.6 5.7 5.8 5.9 ");
}

TEST_CASE("shard-data: the fall-back to data is told once", "[input][conformance]") {
  const Workers workers(2, 1);
  std::vector<Distributed> datasets;
  const std::string told =
      test::captured_stderr([&] { datasets = workers.distribute(Dataset::range(1024), false); });
  CHECK(std::count(told.begin(), told.end(), '\n') == 1);
  CHECK(told.find("auto_shard: the dataset does not come from from_files") != std::string::npos);
  const Steps steps = workers.steps(datasets);
  REQUIRE(steps.size() == 512);
  Values first;
  for (const Step& step : steps) first.insert(first.end(), step[0][0].begin(), step[0][0].end());
  Values even;
  for (std::int64_t i = 0; i < 1024; i += 2) even.push_back(i);
  CHECK(first == even);
}

TEST_CASE("shard-too-few: a worker with an element fails where another has none", "[input][conformance]") {
  const Workers workers(10, 1);
  const auto first_fetch = [&](std::int64_t num_elements) {
    std::vector<Distributed> datasets;
    test::captured_stderr([&] { datasets = workers.distribute(Dataset::range(num_elements), false); });
    return test::on_workers(workers.size(), [&](int worker) {
      std::pair<bool, std::string> outcome;
      try {
        auto iterator = datasets[static_cast<std::size_t>(worker)].iterator();
        outcome.second = iterator.next_optional() ? "an element" : "the end";
      } catch (const InvalidArgument& error) {
        outcome = {true, error.what()};
      } catch (const std::exception& error) {
        outcome.second = error.what();
      }
      return outcome;
    });
  };
  const auto few = first_fetch(5);
  for (std::size_t worker = 0; worker < few.size(); ++worker) {
    CHECK(few[worker].first == (worker < 5));
    CHECK(few[worker].second.find("auto_shard: the dataset has fewer than 10 elements") != std::string::npos);
  }
  CHECK(few[9].second.find("worker 0 could not read its part of the step") != std::string::npos);
  for (const auto& outcome : first_fetch(0)) CHECK(outcome.second == "the end");
}
