// Distributed input of one process: splitting, incomplete steps, element_spec.
#include <algorithm>
#include <optional>
#include <sstream>

#include "goldens/datasets.hpp"

namespace lockstep::test {

namespace {

using Step = PerReplica<Tensor>;

InputOptions with_policy(AutoShardPolicy policy) { return {.auto_shard_policy = policy}; }

Json split(int n, const TypedDataset<Tensor>& dataset, const InputOptions& options = {}) {
  Replicas s(n);
  return steps(s.distribute_dataset(dataset, options));
}
Json sizes(const Json& all) {
  Json result = Json::array();
  for (const Json& step : all) {
    result.push_back(Json::array());
    for (const Json& component : step) result.back().push_back(component.size());
  }
  return result;
}
Json first(Json all, std::size_t count) {
  Json result = Json::array();
  for (std::size_t i = 0; i < std::min(count, all.size()); ++i) result.push_back(all[i]);
  return result;
}

Json spec_of(const PerReplica<TensorSpec>& specs) {
  Json result = Json::array();
  for (const TensorSpec& spec : specs) {
    std::ostringstream out;
    out << name(spec.dtype) << '(';
    for (std::size_t i = 0; i < spec.extents.size(); ++i) {
      if (i > 0) out << ", ";
      if (spec.extents[i])
        out << *spec.extents[i];
      else
        out << "None";
    }
    out << (spec.extents.size() == 1 ? ",)" : ")");
    result.push_back(out.str());
  }
  return result;
}
Json one_spec(const PerReplica<TensorSpec>& specs) { return rows(Json::array({spec_of(specs)})); }

}  // namespace

GOLDEN("split-even") {
  r("steps", [] { return rows(split(2, range_batches(8, 4))); });
}

GOLDEN("split-32-by-5") {
  r("sizes", [] { return rows(sizes(split(5, range_batches(1024, 32)))); });
}

GOLDEN("split-4-by-3") {
  r("steps", [] { return rows(split(3, range_batches(8, 4))); });
}

GOLDEN("split-tiny-tail") {
  const Json all = split(4, range_batches(34, 32));
  r("sizes, first", [&] { return rows(sizes(first(all, 1))); });
  r("last", [&] { return rows(Json::array({all.back()})); });
}

GOLDEN("split-unbatched") {
  r("range", [] { return rows(split(4, Dataset::range(1024))); });
}

GOLDEN("split-nested") {
  Replicas s(2);
  const auto dataset = s.distribute_dataset(
      Dataset::range(8).map([](const Tensor& x) { return std::tuple(x, std::tuple(x + 1)); }).batch(4));
  r("a",
    [&] { return rows(first(steps(dataset, [](const auto& x) { return values_of(std::get<0>(x)); }), 1)); });
  r("c", [&] {
    return rows(
        first(steps(dataset, [](const auto& x) { return values_of(std::get<0>(std::get<1>(x))); }), 1));
  });
}

GOLDEN("from-function-uneven") {
  Replicas s(2);
  const auto make = [&](bool drop) {
    return rows(
        steps(s.distribute_datasets_from_function([=](InputContext) { return range_batches(9, 2, drop); })));
  };
  r("steps", [&] { return make(false); });
  r("drop_remainder", [&] { return make(true); });
}

GOLDEN("balanced-empty-sizes") {
  const NumberFiles files(1, 8);
  r("OFF", [&] { return rows(split(5, range_batches(8, 4), with_policy(AutoShardPolicy::off))); });
  r("files", [&] { return rows(split(5, files.numbers().batch(4))); });
}

GOLDEN("balanced-partial") {
  r("steps", [] { return rows(split(2, range_batches(5, 4), with_policy(AutoShardPolicy::off))); });
}

GOLDEN("split-table-memory") {
  for (int n = 1; n <= 5; ++n)
    for (int b = 1; b <= 10; ++b)
      r("N=" + std::to_string(n) + " B=" + std::to_string(b),
        [&] { return rows(sizes(split(n, range_batches(b, b)))); });
}

GOLDEN("split-table-off") {
  for (int n = 2; n <= 5; ++n)
    for (int b = 1; b <= 10; ++b)
      r("N=" + std::to_string(n) + " B=" + std::to_string(b),
        [&] { return rows(sizes(split(n, range_batches(b, b), with_policy(AutoShardPolicy::off)))); });
}

GOLDEN("split-policies") {
  const NumberFiles files(1, 10);
  const std::vector<std::pair<std::string, AutoShardPolicy>> policies{{"AUTO", AutoShardPolicy::automatic},
                                                                      {"FILE", AutoShardPolicy::file},
                                                                      {"DATA", AutoShardPolicy::data},
                                                                      {"OFF", AutoShardPolicy::off},
                                                                      {"HINT", AutoShardPolicy::hint}};
  for (const bool is_file : {false, true}) {
    for (const auto& [name, policy] : policies) {
      for (const bool drop : {false, true}) {
        const auto dataset = is_file ? files.numbers() : Dataset::range(10);
        r((is_file ? "file " : "range ") + name + (drop ? " drop_remainder" : ""),
          [&, policy = policy] { return rows(split(3, dataset.batch(7, drop), with_policy(policy))); });
      }
    }
  }
}

GOLDEN("split-after-batch") {
  const auto d = Dataset::range(7).batch(4);
  const auto record = [&](const std::string& name, const TypedDataset<Tensor>& dataset) {
    r(name, [&] { return rows(split(2, dataset)); });
  };
  record("map", d.map([](const Tensor& x) { return x * 10; }));
  record("prefetch", d.prefetch(2));
  record("repeat(2)", d.repeat(2));
  record("take(1)", d.take(1));
  record("filter",
         d.filter([](const Tensor& x) { return x.slice(0, 1).reshape({}).item<std::int64_t>() > 0; }));
  record("concatenate", d.concatenate(d));
  record("repeat before batch", Dataset::range(3).repeat(2).batch(4));
  record("batch of a batch", Dataset::range(8).batch(2).batch(2));
  record("from_tensors", Dataset::range(5).batch(5).map([](const Tensor& x) { return x; }));
  record("generator", Dataset::from_generator([] {
                        return [i = std::int64_t{0}]() mutable {
                          return i < 5 ? std::optional(Tensor::scalar(i++, Device())) : std::nullopt;
                        };
                      }).batch(4));
  record("generator of batches", Dataset::from_generator([] {
           return [i = 0]() mutable -> std::optional<Tensor> {
             ++i;
             if (i > 2) return std::nullopt;
             return i == 1 ? Tensor::from<std::int64_t>({1, 2, 3}, {3}, Device())
                           : Tensor::from<std::int64_t>({4}, {1}, Device());
           };
         }));
  r("shuffle, sorted", [] {
    std::vector<std::int64_t> all;
    for (const Json& step : split(2, Dataset::range(8).shuffle(8, 1).batch(4)))
      for (const Json& component : step)
        for (const Json& row : component) all.push_back(row.get<std::int64_t>());
    std::sort(all.begin(), all.end());
    return rows(all);
  });
  record("empty dataset", Dataset::range(0).batch(4));
}

GOLDEN("split-components") {
  Replicas s(3);
  const auto shapes = [&](const auto& dataset, const InputOptions& options = {}) {
    return rows(steps(s.distribute_dataset(dataset, options), [](const auto& step) {
      Json leaves = Json::array();
      std::apply([&](const auto&... leaf) { (leaves.push_back(shapes_of(leaf)), ...); }, step);
      return leaves;
    }));
  };
  const Device host;
  const auto whole = [](const Tensor& a, const Tensor& b) {
    return Dataset::range(1).map([=](const Tensor&) { return std::tuple(a, b); });
  };
  r("4 and 2 rows", [&] {
    return shapes(whole(Tensor::zeros({4}, DType::f32, host), Tensor::zeros({2}, DType::f32, host)));
  });
  r("4 and 2 rows, OFF", [&] {
    return shapes(whole(Tensor::zeros({4}, DType::f32, host), Tensor::zeros({2}, DType::f32, host)),
                  with_policy(AutoShardPolicy::off));
  });
  r("a scalar component",
    [&] { return shapes(whole(Tensor::zeros({4}, DType::f32, host), Tensor::scalar(1, host))); });
  r("a component of no rows", [&] {
    return shapes(whole(Tensor::zeros({4}, DType::f32, host), Tensor::zeros({0, 5}, DType::f32, host)));
  });
}

GOLDEN("partial-steps") {
  Replicas s(3);
  const auto shapes = [&](auto make) {
    return rows(steps(s.distribute_datasets_from_function([&](InputContext) { return make(); }), shapes_of));
  };
  const Device host;
  r("batches of [2, 5]", [&] {
    return shapes([&] {
      return Dataset::from_tensor_slices(Tensor::zeros({7, 5}, DType::f32, host)).batch(2);
    });
  });
  r("unknown second size", [&] {
    return shapes([&] {
      return Dataset::range(1).map([=](const Tensor&) { return Tensor::zeros({2, 4}, DType::f32, host); });
    });
  });
  r("scalars", [&] { return shapes([] { return Dataset::range(4); }); });
  r("static batches", [&] {
    return shapes([&] { return Dataset::from_tensor_slices(Tensor::zeros({4, 2, 3}, DType::f32, host)); });
  });
}

GOLDEN("get-next-as-optional") {
  Replicas s(2);
  const auto pull = [&](const TypedDataset<Tensor>& dataset, int n) {
    auto iterator = s.distribute_datasets_from_function([&](InputContext) { return dataset; }).iterator();
    Json all = Json::array();
    for (int i = 0; i < n; ++i) {
      const std::optional<Step> step = iterator.next_optional();
      all.push_back(step ? values_of(*step) : Json());
    }
    return rows(all);
  };
  r("5 rows", [&] { return pull(range_batches(5, 2), 3); });
  r("after the end", [&] { return pull(range_batches(2, 2), 3); });
  r("drop_remainder, a step that cannot fill", [&] { return pull(range_batches(6, 2, true), 3); });
  r("infinite", [&] { return pull(Dataset::range(3).repeat().batch(2), 2); });
  r("empty", [&] { return pull(range_batches(0, 2), 1); });
  auto iterator =
      s.distribute_datasets_from_function([](InputContext) { return range_batches(2, 2); }).iterator();
  iterator.next_optional();
  r("in run", [&] { s.run([&] { iterator.next_optional(); }); });
}

GOLDEN("element-spec") {
  Replicas s(2);
  Replicas single(1);
  OneDevice one;
  const auto spec = [](Strategy& strategy, const TypedDataset<Tensor>& dataset,
                       const InputOptions& options = {}) {
    return one_spec(strategy.distribute_dataset(dataset, options).element_spec());
  };
  r("batch(4)", [&] { return spec(s, range_batches(8, 4)); });
  r("batch(4, drop_remainder)", [&] { return spec(s, range_batches(8, 4, true)); });
  r("batch(5, drop_remainder)", [&] { return spec(s, range_batches(10, 5, true)); });
  r("batch(4, drop_remainder), OFF",
    [&] { return spec(s, range_batches(8, 4, true), with_policy(AutoShardPolicy::off)); });
  r("dict of [4, 3]", [&] {
    const Device host;
    const auto dataset = Dataset::from_tensor_slices(Tensor::zeros({4, 3}, DType::f32, host),
                                                     Tensor::arange(4, DType::i32, host));
    const auto [a, b] = s.distribute_dataset(dataset.batch(2)).element_spec();
    return rows(Json::array({spec_of(a), spec_of(b)}));
  });
  r("iterator",
    [&] { return one_spec(s.distribute_dataset(range_batches(8, 4)).iterator().element_spec()); });
  const auto from_function = [&](bool drop) {
    return one_spec(s.distribute_datasets_from_function([=](InputContext) {
                       return range_batches(8, 4, drop);
                     }).element_spec());
  };
  r("from function", [&] { return from_function(false); });
  r("from function, drop_remainder", [&] { return from_function(true); });
  r("one replica", [&] { return spec(single, range_batches(8, 4)); });
  r("one replica, drop_remainder", [&] { return spec(single, range_batches(8, 4, true)); });
  r("OneDevice", [&] { return spec(one, range_batches(8, 4)); });
}

GOLDEN("one-replica-input") {
  const auto table = [&](const std::string& name, Strategy& s) {
    r(name + ": unbatched", [&] { return rows(steps(s.distribute_dataset(Dataset::range(3)))); });
    r(name + ": batches", [&] { return rows(steps(s.distribute_dataset(range_batches(5, 2)))); });
    r(name + ": first step", [&] { return s.distribute_dataset(range_batches(5, 2)).iterator().next(); });
    r(name + ": from function", [&] {
      return rows(
          steps(s.distribute_datasets_from_function([](InputContext) { return range_batches(3, 2); })));
    });
  };
  Replicas single(1);
  OneDevice one;
  Central central(1);
  table("Mirrored", single);
  table("OneDevice", one);
  table("default", get_strategy());
  table("CentralStorage", central);
}

GOLDEN("central-storage-input") {
  Central s(2);
  r("split", [&] { return rows(steps(s.distribute_dataset(range_batches(7, 4)))); });
  r("from function", [&] {
    return rows(steps(s.distribute_datasets_from_function([](InputContext) { return range_batches(5, 2); })));
  });
  Json seen = Json::array();
  static_cast<void>(s.distribute_datasets_from_function([&](InputContext c) {
    seen.push_back({c.num_input_pipelines(), c.input_pipeline_id(), c.num_replicas_in_sync()});
    return range_batches(4, 2);
  }));
  r("context", [&] { return rows(seen); });
}

GOLDEN("one-row-two-replicas") {
  Replicas s(2);
  const auto twice = [&] {
    auto iterator = s.distribute_dataset(
                         Dataset::from_tensor_slices(Tensor::from<std::int64_t>({5}, {1}, Device())).batch(2))
                        .iterator();
    return s.run([](const Tensor& x) { return x + x; }, iterator.next());
  };
  r("x + x", twice);
  r("shapes", [&] {
    std::vector<Json> shapes;
    for (const Json& shape : shapes_of(twice()))
      shapes.push_back({{"list", Json::array({{{"host", shape[0]}}})}});
    return shapes;
  });
}

GOLDEN("static-step-dropped") {
  Replicas s(2);
  const auto make = [&](bool drop) {
    return rows(
        steps(s.distribute_datasets_from_function([=](InputContext) { return range_batches(20, 4, drop); })));
  };
  r("with drop_remainder", [&] { return make(true); });
  r("without", [&] { return make(false); });
}

}  // namespace lockstep::test
