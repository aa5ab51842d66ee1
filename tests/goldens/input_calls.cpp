// Input of one process: contexts, options, NumPy's arrays, passes, loops.
#include <lockstep/ops.hpp>

#include "goldens/datasets.hpp"

namespace lockstep::test {

using Step = PerReplica<Tensor>;

GOLDEN("input-context") {
  const InputContext c(2, 1, 6);
  r("properties", [&] {
    return std::vector<int>{c.num_input_pipelines(), c.input_pipeline_id(), c.num_replicas_in_sync()};
  });
  r("12", [&] { return c.get_per_replica_batch_size(12); });
  r("13", [&] { return c.get_per_replica_batch_size(13); });
}

GOLDEN("input-contexts") {
  const InputContext plain;
  r("defaults", [&] {
    return std::vector<int>{plain.num_input_pipelines(), plain.input_pipeline_id(),
                            plain.num_replicas_in_sync()};
  });
  const InputContext c(1, 0, 4);
  r("0 of 4", [&] { return c.get_per_replica_batch_size(0); });
  r("2 of 4", [&] { return c.get_per_replica_batch_size(2); });
  const ValueContext v;
  r("value context defaults", [&] {
    return std::vector<int>{v.replica_id_in_sync_group(), v.num_replicas_in_sync()};
  });
}

GOLDEN("value-context") {
  const ValueContext c(2, 4);
  r("id / N", [&] { return static_cast<double>(c.replica_id_in_sync_group()) / c.num_replicas_in_sync(); });
}

GOLDEN("input-options") {
  Replicas s(2);
  OneDevice one;
  const InputOptions plain;
  r("defaults", [&] {
    return std::vector<Json>{
        encode(plain.fetch_to_device),
        encode(plain.replication_mode == InputReplicationMode::per_worker ? "PER_WORKER" : "PER_REPLICA"),
        encode(plain.place_dataset_on_device), encode(plain.per_replica_buffer_size)};
  });
  const InputOptions per{.replication_mode = InputReplicationMode::per_replica};
  r("per-replica, distribute_dataset",
    [&] { static_cast<void>(s.distribute_dataset(range_batches(4, 2), per)); });
  Json seen = Json::array();
  const auto fn = [&](InputContext c) {
    seen.push_back({c.num_input_pipelines(), c.input_pipeline_id(), c.num_replicas_in_sync()});
    return range_batches(4, 2).map([id = c.input_pipeline_id()](const Tensor& x) { return x + 10 * id; });
  };
  r("per-replica, from function", [&] { return rows(steps(s.distribute_datasets_from_function(fn, per))); });
  r("per-replica: contexts", [&] { return rows(seen); });
  r("per-replica, OneDevice", [&] { static_cast<void>(one.distribute_datasets_from_function(fn, per)); });
  r("on device without per-replica",
    [&] { static_cast<void>(s.distribute_datasets_from_function(fn, {.place_dataset_on_device = true})); });
  r("on device with fetch_to_device", [&] {
    static_cast<void>(s.distribute_datasets_from_function(
        fn, {.replication_mode = InputReplicationMode::per_replica, .place_dataset_on_device = true}));
  });
  const auto where = [&](const InputOptions& options) {
    std::vector<Device> devices;
    const Step step = s.distribute_dataset(range_batches(4, 2), options).iterator().next();
    for (const Tensor& component : step) devices.push_back(component.device());
    return devices;
  };
  r("components' devices", [&] { return where({}); });
  r("components' devices, not fetched", [&] { return where({.fetch_to_device = false}); });
  for (const int n : {0, 1, 3, -1})
    r("buffer size " + std::to_string(n),
      [&] { return rows(steps(s.distribute_dataset(range_batches(4, 2), {.per_replica_buffer_size = n}))); });
}

GOLDEN("numpy-two-epochs") {
  Replicas s(2);
  const Tensor x = f32s({1, 2, 6, 12, 2, 4, 5, 10, 3, 6, 4, 8}, {6, 2});
  const Tensor y = f32s({5, 4, 3, 2, 1, 0});
  const auto dataset = s.distribute_dataset(s.make_numpy_dataset(std::tuple(x, y)).repeat(2).batch(6));
  r("steps", [&] {
    return rows(steps(dataset, [&](const auto& step) {
      return Json::array(
          {value_of(s.gather(std::get<0>(step), 0)), value_of(s.gather(std::get<1>(step), 0))});
    }));
  });
}

GOLDEN("numpy-list-is-stacked") {
  Replicas s(2);
  const Tensor a = Tensor::from<std::int64_t>({1, 2, 3}, {3});
  const Tensor b = Tensor::from<std::int64_t>({4, 5, 6}, {3});
  const auto pairs = [](const auto& dataset) {
    Json all = Json::array();
    for (const auto& [p, q] : dataset) all.push_back(Json::array({value_of(p), value_of(q)}));
    return rows(all);
  };
  r("list", [&] { return rows(elements(s.make_numpy_dataset(std::vector{a, b}))); });
  r("tuple", [&] { return pairs(s.make_numpy_dataset(std::tuple(a, b))); });
  r("dict", [&] {
    Json all = Json::array();
    for (const auto& element : s.make_numpy_dataset(std::map<std::string, Tensor>{{"a", a}, {"b", b}}))
      all.push_back(Json::array({value_of(element.at("a")), value_of(element.at("b"))}));
    return rows(all);
  });
}

GOLDEN("numpy-table") {
  Replicas s(2);
  const auto i64s = [](const std::vector<std::int64_t>& values) {
    return Tensor::from(values, Shape(values.size()));
  };
  r("rank 2", [&] { return rows(elements(s.make_numpy_dataset(i64s({1, 2, 3, 4}).reshape({2, 2})))); });
  r("no rows", [&] { return rows(elements(s.make_numpy_dataset(Tensor::zeros({0, 3})))); });
  r("nest", [&] {
    Json all = Json::array();
    for (const auto& [a, b] : s.make_numpy_dataset(std::tuple(i64s({1, 2}), std::tuple(i64s({3, 4})))))
      all.push_back(Json::array({value_of(a), value_of(std::get<0>(b))}));
    return rows(all);
  });
  r("list of unequal shapes", [&] {
    static_cast<void>(s.make_numpy_dataset(std::vector{i64s({1, 2}), i64s({3})}));
  });
  r("a number", [&] { static_cast<void>(s.make_numpy_dataset(f32(3))); });
  r("in run", [&] { s.run([&] { static_cast<void>(s.make_numpy_dataset(f32s({1}))); }); });
  r("changed afterwards", [&] {
    Tensor a = i64s({1, 2});
    const auto dataset = s.make_numpy_dataset(a);
    a.fill_(9);
    return rows(elements(dataset));
  });
  r("default strategy", [&] { return rows(elements(get_strategy().make_numpy_dataset(i64s({1, 2})))); });
}

GOLDEN("next-in-replica") {
  Replicas s(2);
  auto iterator = s.distribute_dataset(range_batches(8, 4)).iterator();
  r("next in run", [&] { s.run([&] { iterator.next(); }); });
  r("usable afterwards", [&] { return s.local_results(iterator.next()); });
}

GOLDEN("iterate-twice") {
  Replicas s(2);
  const auto dataset = s.distribute_datasets_from_function([](InputContext) { return Dataset::range(10); });
  r("first pass", [&] { return rows(steps(dataset)); });
  r("second pass", [&] { return rows(steps(dataset)); });
  auto iterator = dataset.iterator();
  for (int i = 0; i < 5; ++i) iterator.next();
  r("after the end", [&] { iterator.next(); });
  r("after the end, again", [&] { iterator.next(); });
}

GOLDEN("run-over-dataset") {
  Replicas s(2);
  const auto dataset = s.distribute_dataset(
      Dataset::range(10).map([](const Tensor& x) { return x.cast(DType::f32); }).batch(4));
  const auto summed = [&](const Step& x) {
    return s.reduce(kSum, s.run([](const Tensor& part) { return sum(part); }, x)).item<float>();
  };
  r("sums", [&] { return rows(steps(dataset, [&](const Step& x) { return Json(summed(x)); })); });
  r("means, axis 0", [&] {
    return rows(steps(dataset, [&](const Step& x) { return Json(s.reduce(kMean, x, {0}).item<float>()); }));
  });
  r("rows", [&] { return rows(steps(dataset, [&](const Step& x) { return Json(s.num_rows(x)); })); });
  r("in a function", [&] {
    float total = 0;
    for (const Step& x : dataset) total += summed(x);
    return f32(total);
  });
}

}  // namespace lockstep::test
