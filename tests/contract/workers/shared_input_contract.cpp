#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/expected.hpp"
#include "support/scoped_log_sink.hpp"
#include "support/world.hpp"

/// What each worker's replicas get of a dataset, by rules that are written out here once more.
namespace lockstep::test {

namespace {

using Rows = std::vector<std::int64_t>;
using Steps = std::vector<std::vector<Rows>>;  // [step][local replica]
using Distributed = DistributedDataset<PerReplica<Tensor>>;

InputOptions with(AutoShardPolicy policy) { return {.auto_shard_policy = policy}; }

/// Steps until no worker has data; those that have none take part with empty batches. @param streams  of each
/// worker, what its replicas take in turn.
Steps deal(const std::vector<std::vector<Rows>>& streams) {
  const World& w = world();
  const auto num_local = static_cast<std::size_t>(w.num_local_replicas);
  std::size_t num_steps = 0;
  for (const auto& stream : streams)
    num_steps = std::max(num_steps, (stream.size() + num_local - 1) / num_local);
  Steps steps(num_steps, std::vector<Rows>(num_local));
  const auto& own = streams[static_cast<std::size_t>(w.worker)];
  for (std::size_t k = 0; k < own.size(); ++k) steps[k / num_local][k % num_local] = own[k];
  return steps;
}

/// Ceiling slices of each batch, dealt to the workers in turn.
Steps by_data(std::int64_t num_rows, std::int64_t batch) {
  const World& w = world();
  std::vector<std::vector<Rows>> streams(static_cast<std::size_t>(w.num_workers));
  std::size_t slice = 0;
  for (std::int64_t begin = 0; begin < num_rows; begin += batch) {
    const std::int64_t rows = std::min(batch, num_rows - begin);
    const std::int64_t each = (rows + w.num_replicas - 1) / w.num_replicas;
    for (int replica = 0; replica < w.num_replicas; ++replica, ++slice) {
      Rows part;
      for (std::int64_t i = replica * each; i < std::min((replica + 1) * each, rows); ++i)
        part.push_back(begin + i);
      streams[slice % streams.size()].push_back(part);
    }
  }
  return deal(streams);
}

/// Balanced sizes, of which each worker has its own cycle, cut from the rows that each worker reads.
Steps by_sizes(const std::vector<Rows>& rows_of_workers, std::int64_t batch) {
  const World& w = world();
  std::vector<std::vector<Rows>> streams;
  for (std::size_t worker = 0; worker < rows_of_workers.size(); ++worker) {
    std::vector<Rows> stream;
    const Rows& rows = rows_of_workers[worker];
    std::size_t slice = worker * static_cast<std::size_t>(w.num_local_replicas);
    for (std::size_t begin = 0; begin < rows.size(); ++slice) {
      const bool is_longer = static_cast<std::int64_t>(slice % static_cast<std::size_t>(w.num_replicas)) <
                             batch % w.num_replicas;
      const auto size = static_cast<std::size_t>(batch / w.num_replicas + (is_longer ? 1 : 0));
      const std::size_t end = std::min(begin + size, rows.size());
      stream.emplace_back(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                          rows.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
    }
    streams.push_back(std::move(stream));
  }
  return deal(streams);
}

Rows up_to(std::int64_t n) {
  Rows rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

struct Pass {
  Steps steps;
  std::int64_t total = 0;  // of all replicas' rows
  bool is_in_place = true;
};

/// One pass, at most so many steps, with a reduction in each: it hangs where the workers differ in their
/// number.
Pass pass(const Distributed& dataset, std::size_t max_steps = 10'000) {
  const World& w = world();
  Pass result;
  for (const PerReplica<Tensor>& value : dataset) {
    std::vector<Rows> step;
    for (int i = 0; i < value.size(); ++i) {
      result.is_in_place = result.is_in_place && value[i].device() == w.devices[static_cast<std::size_t>(i)];
      step.push_back(value[i].to_vector<std::int64_t>());
    }
    result.steps.push_back(step);
    result.total += w.strategy.reduce(ReduceOp::sum, value, 0).item<std::int64_t>();
    if (result.steps.size() == max_steps) break;
  }
  return result;
}

/// Files of text, a number in each line: file f has `lengths[f]` of them, counted on from file to file.
class NumberFiles {
 public:
  explicit NumberFiles(const std::vector<std::int64_t>& lengths) {
    static int count = 0;
    folder_ = world().folder / ("numbers-" + std::to_string(count++) + "-" + std::to_string(world().worker));
    std::filesystem::create_directory(folder_);
    std::int64_t next = 0;
    for (std::size_t file = 0; file < lengths.size(); ++file) {
      paths_.push_back(folder_ / std::to_string(file));
      std::ofstream text(paths_.back());
      for (std::int64_t i = 0; i < lengths[file]; ++i) {
        rows_.resize(file + 1);
        rows_[file].push_back(next);
        text << next++ << '\n';
      }
    }
    total_ = triangular(next);
  }
  std::int64_t total() const { return total_; }
  /// What each worker reads of them: files w, w + W, …
  std::vector<Rows> shares() const {
    std::vector<Rows> result(static_cast<std::size_t>(world().num_workers));
    for (std::size_t file = 0; file < rows_.size(); ++file) {
      Rows& share = result[file % result.size()];
      share.insert(share.end(), rows_[file].begin(), rows_[file].end());
    }
    return result;
  }
  TypedDataset<Tensor> dataset() const {
    return Dataset::from_files(paths_, readers::lines()).map([](const Tensor& line) {
      return Tensor::scalar(std::int64_t{std::stoll(readers::text(line))});
    });
  }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> paths_;
  std::vector<Rows> rows_;
  std::int64_t total_ = 0;
};

}  // namespace

TEST_CASE("by data, each worker gets its slices of every batch, and all rows are seen once", "[workers]") {
  const std::int64_t num_rows = GENERATE(24, 23, 14, 7, 1);
  const std::int64_t batch = GENERATE(8, 12, 5, 1);
  CAPTURE(num_rows, batch);
  const auto dataset =
      world().strategy.distribute_dataset(Dataset::range(num_rows).batch(batch), with(AutoShardPolicy::data));
  for (int round = 0; round < 2; ++round) {
    const Pass found = pass(dataset);
    CHECK(found.steps == by_data(num_rows, batch));
    CHECK(found.total == triangular(num_rows));
    CHECK(found.is_in_place);
  }
}

TEST_CASE("automatic policy shares out elements, with one warning, where no files are read", "[workers]") {
  const World& w = world();
  int num_warnings = 0;
  std::optional<Distributed> dataset;
  {
    const ScopedLogSink sink([&](std::string_view line) {
      if (line.find("auto_shard") != std::string_view::npos) ++num_warnings;
    });
    dataset = w.strategy.distribute_dataset(Dataset::range(25).batch(12));
  }
  const Pass found = pass(*dataset);
  CHECK(found.steps == by_data(25, 12));
  CHECK(found.total == triangular(25));
  CHECK(num_warnings == (w.num_workers > 1 ? 1 : 0));
}

TEST_CASE("by file, each worker reads its files, and all rows are seen once", "[workers]") {
  const World& w = world();
  const auto policy = GENERATE(AutoShardPolicy::file, AutoShardPolicy::automatic);
  const std::int64_t batch = GENERATE(12, 13, 17);
  CAPTURE(policy, batch);
  const NumberFiles files({5, 12, 1, 30, 7, 2, 9});
  const auto dataset = w.strategy.distribute_dataset(files.dataset().batch(batch), with(policy));
  for (int round = 0; round < 2; ++round) {
    const Pass found = pass(dataset);
    CHECK(found.steps == by_sizes(files.shares(), batch));
    CHECK(found.total == files.total());
    CHECK(found.is_in_place);
  }
}

TEST_CASE("with the policy off, every worker reads everything", "[workers]") {
  const World& w = world();
  const std::int64_t batch = GENERATE(12, 7);
  CAPTURE(batch);
  const auto dataset =
      w.strategy.distribute_dataset(Dataset::range(40).batch(batch), with(AutoShardPolicy::off));
  const Pass found = pass(dataset);
  CHECK(found.steps ==
        by_sizes(std::vector<Rows>(static_cast<std::size_t>(w.num_workers), up_to(40)), batch));
  CHECK(found.total == w.num_workers * triangular(40));
}

TEST_CASE("with a hint, the dataset's own shard is the worker's", "[workers]") {
  const World& w = world();
  const auto source = Dataset::range(41).shard(Dataset::shard_hint, Dataset::shard_hint).batch(12);
  const Pass found = pass(w.strategy.distribute_dataset(source, with(AutoShardPolicy::hint)));
  std::vector<Rows> shares(static_cast<std::size_t>(w.num_workers));
  for (std::int64_t i = 0; i < 41; ++i) shares[static_cast<std::size_t>(i % w.num_workers)].push_back(i);
  CHECK(found.steps == by_sizes(shares, 12));
  CHECK(found.total == triangular(41));
}

TEST_CASE("a pass that is restored goes on where it was saved, on every worker", "[workers]") {
  const World& w = world();
  const auto policy = GENERATE(AutoShardPolicy::file, AutoShardPolicy::data, AutoShardPolicy::off);
  const std::int64_t batch = GENERATE(12, 13);
  CAPTURE(policy, batch);
  const NumberFiles files({5, 12, 1, 30, 7, 2, 9});
  const auto dataset = w.strategy.distribute_dataset(files.dataset().batch(batch), with(policy));
  const auto rest_of = [](DistributedIterator<PerReplica<Tensor>>& iterator) {
    Steps steps;
    while (const auto value = iterator.next_optional()) {
      std::vector<Rows>& step = steps.emplace_back();
      for (const Tensor& part : *value) step.push_back(part.to_vector<std::int64_t>());
    }
    return steps;
  };
  auto iterator = dataset.iterator();
  iterator.next();
  const IteratorState state = iterator.save_state();
  const Steps rest = rest_of(iterator);
  auto restored = dataset.iterator();
  restored.restore_state(state);
  CHECK(rest_of(restored) == rest);
  CHECK(is_usable(w.strategy));
}

TEST_CASE("by file without files is refused where there are several workers", "[workers]") {
  const World& w = world();
  const Thrown thrown = thrown_by([&] {
    static_cast<void>(w.strategy.distribute_dataset(Dataset::range(8).batch(4), with(AutoShardPolicy::file)));
  });
  CHECK(thrown.is<NotFound>() == (w.num_workers > 1));
  CHECK(is_usable(w.strategy));
}

TEST_CASE("a dataset's function is told its worker, and its elements are dealt whole", "[workers]") {
  const World& w = world();
  int calls = 0;
  std::vector<int> told;
  const auto dataset = w.strategy.distribute_datasets_from_function([&](const InputContext& context) {
    ++calls;
    told = {context.num_input_pipelines(), context.input_pipeline_id(), context.num_replicas_in_sync(),
            static_cast<int>(context.get_per_replica_batch_size(12 * w.num_replicas))};
    // Worker w has 9 + 4 w rows, in batches of 2.
    const std::int64_t begin = 100 * context.input_pipeline_id();
    return Dataset::range(begin, begin + 9 + 4 * context.input_pipeline_id()).batch(2);
  });
  CHECK(calls == 1);
  CHECK(told == std::vector<int>{w.num_workers, w.worker, w.num_replicas, 12});
  std::vector<std::vector<Rows>> streams;
  std::int64_t total = 0;
  for (int worker = 0; worker < w.num_workers; ++worker) {
    streams.emplace_back();
    for (std::int64_t row = 0; row < 9 + 4 * worker; ++row) {
      if (row % 2 == 0) streams.back().emplace_back();
      streams.back().back().push_back(100 * worker + row);
      total += 100 * worker + row;
    }
  }
  for (int round = 0; round < 2; ++round) {
    const Pass found = pass(dataset);
    CHECK(found.steps == deal(streams));
    CHECK(found.total == total);
  }
}

TEST_CASE("a pass that all workers leave early does not disturb the next one", "[workers]") {
  const World& w = world();
  const auto dataset =
      w.strategy.distribute_dataset(Dataset::range(60).batch(6), with(AutoShardPolicy::data));
  const Steps expected = by_data(60, 6);
  for (const std::size_t steps : {1, 3, 1}) {
    const Pass found = pass(dataset, steps);
    CHECK(found.steps == Steps(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(steps)));
  }
  CHECK(pass(dataset).steps == expected);
  CHECK(is_usable(w.strategy));
}

TEST_CASE("a pass without a thread of its own gives the same steps", "[workers]") {
  InputOptions options = with(AutoShardPolicy::data);
  options.per_replica_buffer_size = GENERATE(0, 3);
  const auto dataset = world().strategy.distribute_dataset(Dataset::range(31).batch(8), options);
  CHECK(pass(dataset).steps == by_data(31, 8));
}

TEST_CASE("a step that one worker cannot read fails on all, and all go on after it", "[workers]") {
  const World& w = world();
  const auto dataset = w.strategy.distribute_datasets_from_function([&](const InputContext& context) {
    const bool fails = context.input_pipeline_id() == context.num_input_pipelines() - 1;
    const std::int64_t bad = 2 * w.num_local_replicas;
    return Dataset::range(6 * w.num_local_replicas).batch(2).map([fails, bad](const Tensor& x) {
      if (fails && x.to_vector<std::int64_t>()[0] == bad) throw std::runtime_error("a bad row");
      return x;
    });
  });
  auto iterator = dataset.iterator();
  std::vector<bool> has_failed;
  for (int step = 0; step < 3; ++step) {
    const Thrown thrown = thrown_by([&] { static_cast<void>(iterator.next()); });
    has_failed.push_back(static_cast<bool>(thrown));
    if (thrown && w.worker == w.num_workers - 1) CHECK(thrown.has("a bad row"));
  }
  CHECK(has_failed[0] == false);
  CHECK(has_failed[1] == true);
  CHECK(is_usable(w.strategy));
}

TEST_CASE("training over a dataset sees every row once, and the mean is that of all rows", "[workers]") {
  const World& w = world();
  const auto scope = w.strategy.scope();
  Variable sum(Tensor::scalar(std::int64_t{0}), {.aggregation = VariableAggregation::sum});
  metrics::Mean mean;
  const auto dataset =
      w.strategy.distribute_dataset(Dataset::range(29).batch(7), with(AutoShardPolicy::data));
  for (const PerReplica<Tensor>& batch : dataset)
    w.strategy.run(
        [&](const Tensor& rows) {
          sum.assign_add(lockstep::sum(rows));
          mean.update(rows.cast(DType::f32));
        },
        batch);
  CHECK(sum.value().item<std::int64_t>() == triangular(29));
  CHECK(mean.result().item<double>() == 14.0);
}

TEST_CASE("steps of an iterator keep the outputs of the last one, reduced over all workers", "[workers]") {
  const World& w = world();
  const auto dataset = w.strategy.distribute_dataset(
      Dataset::range(12 * w.num_replicas).batch(4 * w.num_replicas), with(AutoShardPolicy::data));
  auto iterator = dataset.iterator();
  const MultiStepContext outputs = w.strategy.extended().run_steps_on_iterator(
      [&](MultiStepContext& context, const PerReplica<Tensor>& batch) {
        w.strategy.run(
            [&](ReplicaContext&, const Tensor& rows) {
              context.set_last_step_output("sum", lockstep::sum(rows), ReduceOp::sum);
              context.set_non_tensor_output("text", "as it is");
            },
            batch);
        context.set_last_step_output("mean", batch, ReduceOp::mean);
        context.set_last_step_output("rows", batch);
      },
      iterator, 2);
  const std::int64_t per_batch = 4 * w.num_replicas;
  const auto& last = outputs.last_step_outputs();
  CHECK(last.at("sum").size() == 1);
  CHECK(last.at("sum")[0].item<std::int64_t>() == triangular(2 * per_batch) - triangular(per_batch));
  CHECK(last.at("mean")[0].dtype() == DType::f64);
  CHECK(last.at("rows").size() == w.num_local_replicas);
  CHECK(outputs.non_tensor_outputs().at("text").size() == 1);
  const Thrown thrown = thrown_by([&] {
    w.strategy.extended().run_steps_on_iterator([](MultiStepContext&, const PerReplica<Tensor>&) {}, iterator,
                                                2);
  });
  CHECK(thrown.is<OutOfRange>());
  CHECK(is_usable(w.strategy));
}

}  // namespace lockstep::test
