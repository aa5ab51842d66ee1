// Input of several workers, which are threads of this process: shares, steps in common, balanced sizes.
#include <algorithm>

#include <lockstep/input/auto_shard.hpp>
#include <lockstep/input/distribute.hpp>
#include <lockstep/input/sharding.hpp>

#include "goldens/datasets.hpp"
#include "support/worker_group.hpp"

namespace lockstep::test {

namespace {

using Distributed = DistributedDataset<PerReplica<Tensor>>;

/// W workers of R replicas.
class Workers {
 public:
  Workers(int num_workers, int num_replicas, bool splits = true)
      : group_(num_workers), num_replicas_(num_replicas), splits_(splits) {}

  /// Per step the components of worker 0's replicas, then worker 1's, ...
  Json distributed(const TypedDataset<Tensor>& dataset,
                   AutoShardPolicy policy = AutoShardPolicy::automatic) const {
    return steps_of([&](int worker) {
      return detail::distribute(dataset, target(worker), {.auto_shard_policy = policy});
    });
  }
  template <class F>
  Json from_function(const F& fn, std::size_t limit = 40) const {
    return steps_of([&](int worker) { return detail::distribute_from_function(fn, target(worker)); }, limit);
  }

 private:
  detail::InputTarget target(int worker) const {
    std::vector<Device> devices;
    const int num_devices = TestBackend::num_devices();
    for (int i = 0; i < num_replicas_; ++i)
      devices.push_back(TestBackend::device((worker * num_replicas_ + i) % num_devices));
    return worker_target(group_, worker, std::move(devices), splits_);
  }
  template <class Make>
  Json steps_of(const Make& make, std::size_t limit = 40) const {
    std::vector<Distributed> datasets;
    for (int worker = 0; worker < group_.num_workers(); ++worker) datasets.push_back(make(worker));
    const auto all = on_workers(group_.num_workers(), [&](int worker) {
      return steps(datasets[static_cast<std::size_t>(worker)], limit);
    });
    Json result = all[0];
    for (std::size_t worker = 1; worker < all.size(); ++worker) {
      REQUIRE(all[worker].size() == result.size());
      for (std::size_t i = 0; i < result.size(); ++i)
        for (const Json& component : all[worker][i]) result[i].push_back(component);
    }
    return rows(result);
  }

  WorkerGroup group_;
  int num_replicas_;
  bool splits_;
};

using Policy = AutoShardPolicy;

Json shard(const TypedDataset<Tensor>& dataset, int num_workers, int worker, Policy policy) {
  return elements(auto_shard(dataset, InputContext(num_workers, worker, num_workers), policy));
}
Json both(const TypedDataset<Tensor>& dataset, Policy policy) {
  return rows(Json::array({shard(dataset, 2, 0, policy), shard(dataset, 2, 1, policy)}));
}

}  // namespace

GOLDEN("two-workers-partial") {
  r("second step", [] {
    const Json all = Workers(2, 1).distributed(range_batches(14, 8)).at("rows");
    return rows(Json::array({all[1]}));
  });
}

GOLDEN("two-workers-from-function-sum") {
  r("sums", [] {
    const auto fn = [](InputContext c) {
      return Dataset::range(100)
          .repeat()
          .batch(c.get_per_replica_batch_size(10))
          .shard(c.num_input_pipelines(), c.input_pipeline_id());
    };
    const Json all = Workers(2, 1).from_function(fn, 1).at("rows");
    Json sums = Json::array();
    for (const Json& component : all[0]) {
      std::int64_t sum = 0;
      for (const Json& row : component) sum += row.get<std::int64_t>();
      sums.push_back(sum);
    }
    return rows(sums);
  });
}

GOLDEN("autoshard-auto-off") {
  const Workers workers(2, 1, false);
  r("AUTO", [&] { return workers.distributed(Dataset::range(4)); });
  r("OFF", [&] { return workers.distributed(Dataset::range(4), Policy::off); });
}

GOLDEN("autoshard-uneven") {
  r("steps", [] { return Workers(2, 2, false).distributed(range_batches(9, 2)); });
}

GOLDEN("workers-of-different-length") {
  r("steps", [] {
    return Workers(2, 2).from_function(
        [](InputContext c) { return range_batches(8 + c.input_pipeline_id(), 2); });
  });
}

GOLDEN("workers-table") {
  const NumberFiles files(4, 3);
  const std::vector<std::array<int, 4>> table{{8, 8, 2, 2}, {14, 8, 2, 1}, {6, 8, 2, 2},  {5, 4, 2, 2},
                                              {9, 4, 3, 1}, {7, 3, 2, 1},  {13, 6, 2, 2}, {10, 4, 2, 2}};
  for (const auto& [n, g, w, k] : table) {
    const std::string key = " rows " + std::to_string(n) + ", G=" + std::to_string(g) + ", " +
                            std::to_string(w) + "x" + std::to_string(k);
    const auto distributed = [&, n = n, g = g, w = w, k = k](Policy policy) {
      return Workers(w, k).distributed(range_batches(n, g), policy);
    };
    r("AUTO" + key, [&] { return distributed(Policy::automatic); });
    r("DATA" + key, [&] { return distributed(Policy::data); });
    r("OFF" + key, [&] { return distributed(Policy::off); });
  }
  for (const int g : {4, 6, 5}) {
    for (const auto& [w, k] : {std::pair(2, 1), std::pair(2, 2), std::pair(4, 1)}) {
      const std::string key =
          " 4x3, G=" + std::to_string(g) + ", " + std::to_string(w) + "x" + std::to_string(k);
      const auto distributed = [&, w = w, k = k](Policy policy) {
        return Workers(w, k).distributed(files.numbers().batch(g), policy);
      };
      r("FILE" + key, [&] { return distributed(Policy::file); });
      r("AUTO files" + key, [&] { return distributed(Policy::automatic); });
    }
  }
  r("AUTO rows 8, G=4, 2x1, drop_remainder",
    [] { return Workers(2, 1).distributed(range_batches(8, 4, true)); });
  r("AUTO rows 9, G=4, 2x1, drop_remainder",
    [] { return Workers(2, 1).distributed(range_batches(9, 4, true)); });
  r("N=3 over W=2", [] {
    detail::InputTarget uneven = worker_target(WorkerGroup(2), 0, {TestBackend::device(0)});
    uneven.context = InputContext(2, 0, 3);
    return rows(steps(detail::distribute(range_batches(6, 3), uneven)));
  });
}

GOLDEN("workers-from-function") {
  const Workers workers(2, 2);
  Json seen = Json::array();
  r("steps", [&] {
    return workers.from_function([&](InputContext c) {
      seen.push_back({c.num_input_pipelines(), c.input_pipeline_id(), c.num_replicas_in_sync()});
      return range_batches(4, 2);
    });
  });
  r("contexts", [&] { return rows(seen); });
  r("6 and 10 rows in twos", [&] {
    return workers.from_function(
        [](InputContext c) { return range_batches(6 + 4 * c.input_pipeline_id(), 2); });
  });
  r("worker 1 has none", [&] {
    return workers.from_function(
        [](InputContext c) { return range_batches(4 * (1 - c.input_pipeline_id()), 2); });
  });
  r("neither has any",
    [&] { return workers.from_function([](InputContext) { return range_batches(0, 2); }); });
}

GOLDEN("shard-files") {
  const NumberFiles files(10, 10);
  r("lines", [&] { return rows(shard(files.numbers(), 5, 0, Policy::file)); });
}

GOLDEN("shard-data") {
  r("numbers", [] { return rows(shard(Dataset::range(1024), 2, 0, Policy::automatic)); });
}

GOLDEN("shard-too-few") {
  for (const int worker : {0, 4, 5, 9})
    r("range(5), worker " + std::to_string(worker),
      [&] { return rows(shard(Dataset::range(5), 10, worker, Policy::automatic)); });
  r("range(0)", [] { return rows(shard(Dataset::range(0), 10, 0, Policy::automatic)); });
}

GOLDEN("shard-more-workers-than-files") {
  const NumberFiles files(10, 10);
  r("worker 499", [&] { return rows(shard(files.numbers(), 500, 499, Policy::file)); });
  r("worker 0", [&] { return rows(shard(files.numbers(), 500, 0, Policy::file)); });
}

GOLDEN("shard-table") {
  const NumberFiles files(4, 2);
  const auto& paths = files.paths();
  const auto lines = [](std::vector<std::filesystem::path> some) {
    return NumberFiles::numbers(std::move(some));
  };
  const auto all = files.numbers();
  const auto range = [](std::int64_t n) { return Dataset::range(n); };
  r("files AUTO", [&] { return both(all, Policy::automatic); });
  r("files DATA", [&] { return both(all, Policy::data); });
  r("files OFF", [&] { return both(all, Policy::off); });
  r("files HINT without a hint", [&] { return both(all, Policy::hint); });
  r("range AUTO", [&] { return both(range(5), Policy::automatic); });
  r("range FILE", [&] { return both(range(5), Policy::file); });
  const auto hinted =
      range(6).shard(Dataset::shard_hint, Dataset::shard_hint).map([](const Tensor& x) { return x * 10; });
  r("range HINT", [&] { return both(hinted, Policy::hint); });
  r("hint with AUTO", [&] { return both(hinted, Policy::automatic); });
  r("hint with OFF", [&] { return both(hinted, Policy::off); });
  r("hint, not sharded", [&] { return rows(elements(hinted)); });
  r("files, batched and mapped",
    [&] { return both(all.batch(2).map([](const Tensor& x) { return x + 1; }), Policy::automatic); });
  r("concatenation", [&] {
    return both(lines({paths[0], paths[1]}).concatenate(lines({paths[2], paths[3]})), Policy::file);
  });
  r("zip", [&] {
    Json shares = Json::array();
    for (const int worker : {0, 1}) {
      shares.push_back(Json::array());
      for (const auto& [a, b] : auto_shard(Dataset::zip(all, all), InputContext(2, worker, 2), Policy::file))
        shares.back().push_back(Json::array({value_of(a), value_of(b)}));
    }
    return rows(shares);
  });
  r("files, repeat(2)", [&] { return both(all.repeat(2), Policy::automatic); });
  r("3 files, 2 workers", [&] { return both(lines({paths[0], paths[1], paths[2]}), Policy::file); });
  const auto single = lines({paths[0]});
  r("1 file, 2 workers, FILE", [&] { return rows(shard(single, 2, 0, Policy::file)); });
  r("1 file, 2 workers, FILE, worker 1", [&] { return rows(shard(single, 2, 1, Policy::file)); });
  r("1 file, 2 workers, AUTO", [&] { return rows(shard(single, 2, 0, Policy::automatic)); });
  r("1 file, 2 workers, AUTO, worker 1", [&] { return rows(shard(single, 2, 1, Policy::automatic)); });
  r("range(1), worker 0 of 2", [&] { return rows(shard(range(1), 2, 0, Policy::data)); });
  r("range(1), worker 1 of 2", [&] { return rows(shard(range(1), 2, 1, Policy::data)); });
  r("range(2), both", [&] { return both(range(2), Policy::data); });
  r("worker 2 of 2", [&] { return rows(shard(range(4), 2, 2, Policy::automatic)); });
  r("worker -1 of 2", [&] { return rows(shard(range(4), 2, -1, Policy::automatic)); });
  r("worker 0 of 0", [&] { return rows(shard(range(4), 0, 0, Policy::automatic)); });
  r("one worker, FILE, range", [&] { return rows(shard(range(4), 1, 0, Policy::file)); });
  r("Dataset.shard(3, 1) of range(8)", [&] { return rows(elements(range(8).shard(3, 1))); });
  r("Dataset.shard(0, 0)", [&] { return rows(elements(range(8).shard(0, 0))); });
  r("Dataset.shard(2, 2)", [&] { return rows(elements(range(8).shard(2, 2))); });
}

GOLDEN("balanced-7-2-2") {
  for (const int worker : {0, 1})
    r("worker " + std::to_string(worker),
      [&] { return rows(balanced_batch_sizes(7, InputContext(2, worker, 4))); });
}

GOLDEN("balanced-4-3-1") {
  for (const int worker : {0, 1, 2})
    r("worker " + std::to_string(worker),
      [&] { return rows(balanced_batch_sizes(4, InputContext(3, worker, 3))); });
}

GOLDEN("balanced-cycles") {
  const std::vector<std::array<int, 3>> table{{6, 2, 2}, {8, 3, 1},  {5, 1, 3}, {1, 2, 2},
                                              {0, 1, 2}, {10, 2, 2}, {16, 2, 4}};
  for (const auto& [g, w, k] : table)
    for (int worker = 0; worker < w; ++worker)
      r("G=" + std::to_string(g) + " W=" + std::to_string(w) + " R=" + std::to_string(k) + " worker " +
            std::to_string(worker),
        [&, g = g, w = w, k = k] { return rows(balanced_batch_sizes(g, InputContext(w, worker, w * k))); });
}

}  // namespace lockstep::test
