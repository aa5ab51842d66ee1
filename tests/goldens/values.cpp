// Values: local_results, gather, packing, merge calls.
#include <cmath>

#include <lockstep/collectives/fusion.hpp>

#include "goldens/programs.hpp"

namespace lockstep::test {

GOLDEN("local-results-order") {
  Replicas s(3);
  r("results", [&] { return s.local_results(s.run([] { return id_tensor() + 1.0; })); });
}

GOLDEN("local-results-plain") {
  Replicas s(2);
  r("7", [&] { return s.local_results(7); });
  r("tensor 7", [&] { return s.local_results(f32(7)); });
}

GOLDEN("local-results-table") {
  Replicas s(2);
  const auto v = per_replica({f32(1), f32(2)});
  r("mirrored", [&] { return s.local_results(mirrored_value({f32(3), f32(3)})); });
  const Variable w = variable(s, 4.0);
  r("variable", [&] { return s.local_results(w); });
  Variable c = variable(s, 0.0, VariableAggregation::sum, VariableSynchronization::on_read);
  s.run([&] { c.assign(id_tensor()); });
  r("on_read variable", [&] { return s.local_results(c); });
  r("mixed nest", [&] {
    using Inner = std::tuple<int, PerReplica<Tensor>>;
    std::vector<Json> parts;
    for (const auto& [a, b, x] : s.local_results(std::tuple(v, Inner(5, v), w)))
      parts.push_back({{"dict", {{"a", encode(a)}, {"b", encode(b)}, {"c", encode(x)}}}});
    return parts;
  });
  r("in run", [&] { return s.run([&] { return s.local_results(v)[0]; }); });
  const auto others = [&](const std::string& name, Strategy& o) {
    r(name + ": dict", [&] { return o.local_results(std::map<std::string, Tensor>{{"a", f32(1)}}); });
    r(name + ": list", [&] { return o.local_results(std::vector<Tensor>{f32(1), f32(2)}); });
  };
  OneDevice one;
  others("OneDevice", one);
  others("default", get_strategy());
}

GOLDEN("values-from-array") {
  Replicas s(3);
  const double array[] = {3, 2, 1};
  const auto v =
      s.distribute_values_from_function([&](ValueContext c) { return array[c.replica_id_in_sync_group()]; });
  r("value", [&] { return v; });
  r("local_results", [&] { return s.local_results(v); });
}

GOLDEN("values-nested") {
  Replicas s(2);
  r("value", [&] {
    return s.distribute_values_from_function([](ValueContext c) {
      const int id = c.replica_id_in_sync_group();
      return std::tuple(f32(id), f32(2 * id), f32(3 * id));
    });
  });
}

GOLDEN("values-from-function-table") {
  Replicas s(2);
  const Tensor t = f32(3);
  const auto make = [&](auto f) { return s.distribute_values_from_function(f); };
  r("host number", [&] { return make([](ValueContext c) { return c.replica_id_in_sync_group(); }); });
  r("num_replicas_in_sync", [&] { return make([](ValueContext c) { return c.num_replicas_in_sync(); }); });
  r("text", [&] { return make([](ValueContext) { return "x"; }); });
  r("None", [&] { return make([](ValueContext) { return std::optional<int>(); }); });
  r("same tensor", [&] { return make([&](ValueContext) { return t; }); });
  r("dict", [&] {
    const auto [a, b] =
        make([&](ValueContext c) { return std::pair(f32(c.replica_id_in_sync_group()), std::vector{t}); });
    return Json({{"dict", {{"a", encode(a)}, {"b", encode(b)}}}});
  });
  r("lengths differ", [&] {
    return make([&](ValueContext c) {
      return std::vector<Tensor>(static_cast<std::size_t>(c.replica_id_in_sync_group()) + 1, t);
    });
  });
  r("in run", [&] { return s.run([&] { return make([&](ValueContext) { return t; })[0]; }); });
  const auto devices = [](const PerReplica<Tensor>& value) {
    std::vector<Device> result;
    for (const Tensor& component : value) result.push_back(component.device());
    return result;
  };
  r("placed on the devices: devices", [&] {
    return devices(
        make([&](ValueContext c) { return f32(1).to(TestBackend::device(c.replica_id_in_sync_group())); }));
  });
  r("placed on CPU:0: devices", [&] { return devices(make([&](ValueContext) { return t; })); });
  Replicas single(1);
  r("one replica", [&] { return single.distribute_values_from_function([&](ValueContext) { return t; }); });
  const auto both = [](ValueContext c) {
    return std::tuple(c.replica_id_in_sync_group(), c.num_replicas_in_sync());
  };
  OneDevice one;
  r("OneDevice", [&] { return one.distribute_values_from_function(both); });
  r("default", [&] { return get_strategy().distribute_values_from_function(both); });
}

GOLDEN("gather-2d") {
  Replicas s(2);
  const auto v = s.run([] { return f32s({1, 2, 3}, {1, 3}); });
  r("axis 0", [&] { return s.gather(v, 0); });
  r("axis 1", [&] { return s.gather(v, 1); });
}

GOLDEN("gather-table") {
  Replicas s(2);
  const auto v = per_replica({f32s({1, 2}, {1, 2}), f32s({3, 4, 5, 6}, {2, 2})});
  r("uneven, axis 0", [&] { return s.gather(v, 0); });
  r("uneven, axis -2", [&] { return s.gather(v, -2); });
  r("axis 2", [&] { return s.gather(v, 2); });
  r("axis -3", [&] { return s.gather(v, -3); });
  r("no rows on replica 0", [&] {
    return s.gather(per_replica({Tensor::zeros({0, 2}), f32s({3, 4}, {1, 2})}), 0);
  });
  r("no rows anywhere", [&] {
    return s.gather(per_replica({Tensor::zeros({0, 2}), Tensor::zeros({0, 2})}), 0);
  });
  r("plain tensor", [&] { return s.gather(f32s({1, 2}), 0); });
  r("host number", [&] { return s.gather(7, 0); });
  r("mirrored", [&] { return s.gather(mirrored_value({f32s({1}), f32s({1})}), 0); });
  const Variable w = variable(s, f32s({1, 2}));
  r("mirrored variable", [&] { return s.gather(w, 0); });
  Variable c = variable(s, f32s({0}), VariableAggregation::sum, VariableSynchronization::on_read);
  s.run([&] { c.assign(id_tensor().reshape({1})); });
  r("on_read variable", [&] { return s.gather(c, 0); });
  r("int32", [&] { return s.gather(per_replica({i32s({1}), i32s({2, 3})}), 0); });
  r("booleans", [&] {
    return s.gather(per_replica({Tensor::full({1}, true), Tensor::full({1}, false)}), 0);
  });
  r("dtypes differ", [&] { return s.gather(per_replica({f32s({1}), i32s({2})}), 0); });
  r("dict", [&] { return s.gather(std::map<std::string, PerReplica<Tensor>>{{"a", v}}, 0); });
  r("scalars", [&] { return s.gather(per_replica({f32(1), f32(2)}), 0); });
  r("sparse rows", [&] { return s.gather(table_rows(), 0); });
}

GOLDEN("pack-by-size") {
  const std::vector<std::size_t> bytes{128, 32, 800, 4};
  const auto packs = [&] {
    std::vector<std::vector<int>> sizes;
    for (const auto& pack : pack_by_bytes(bytes, 200)) {
      sizes.emplace_back();
      for (const std::size_t i : pack) sizes.back().push_back(static_cast<int>(bytes[i]));
    }
    return sizes;
  };
  r("200", packs);
  r("200, number of packs", [&] { return static_cast<int>(packs().size()); });
}

GOLDEN("pack-zero-bytes") {
  const std::vector<std::size_t> bytes{10, 20};
  r("0", [&] {
    std::vector<int> sizes;
    for (const auto& pack : pack_by_bytes(bytes, 0)) sizes.push_back(static_cast<int>(pack.size()));
    return sizes;
  });
  r("-1", [&] { static_cast<void>(CommunicationOptions{.bytes_per_pack = -1}.merged_over({})); });
}

GOLDEN("pack-by-count") {
  r("3", [] { return pack_by_count(10, 3); });
  r("0", [] { return static_cast<int>(pack_by_count(10, 0).size()) - 1; });
  r("-1", [] { return pack_by_count(10, -1); });
}

GOLDEN("merge-call-arguments") {
  Replicas s(2);
  const Variable w = variable(s, 1.0);
  const Tensor t = f32(5);
  const auto got = [&](auto make) {
    Json seen;
    s.run([&] { context().merge_call([&](Strategy&, const auto& x) { seen = encode(x); }, make()); });
    return seen;
  };
  r("tensor", [&] { return got(id_tensor); });
  r("same tensor", [&] { return got([&] { return t; }); });
  r("equal host number", [&] { return got([] { return 7; }); });
  r("different host numbers", [&] { return got(replica_id); });
  r("nest", [&] {
    Json seen;
    s.run([&] {
      context().merge_call(
          [&](Strategy&, const auto& x) {
            seen = {{"dict", {{"a", encode(std::get<0>(x))}, {"b", encode(std::get<1>(x))}}}};
          },
          std::tuple(id_tensor(), std::tuple(t, 7)));
    });
    return seen;
  });
  r("variable", [&] {
    bool is_same = false;
    s.run([&] { context().merge_call([&](Strategy&, const Variable& x) { is_same = x == w; }, w); });
    return is_same;
  });
  r("structures differ",
    [&] { return got([&] { return std::vector<Tensor>(static_cast<std::size_t>(replica_id()) + 1, t); }); });
  r("number of arguments differs", [&] {
    s.run([&] {
      if (replica_id() == 0)
        context().merge_call([](Strategy&, const auto&) {}, t);
      else
        context().merge_call([](Strategy&, const auto&, const auto&) {}, t, t);
    });
  });
  r("keyword", [&] { return got(id_tensor); });
}

GOLDEN("merge-call-results") {
  Replicas s(2);
  const Variable w = variable(s, 1.0);
  const Tensor t = f32(5);
  const auto v = per_replica({f32(1), f32(2)});
  const auto m = mirrored_value({f32(3), f32(3)});
  const auto back = [&](const auto& result) {
    return s.run([&] { return context().merge_call([&](Strategy&) { return result; }); });
  };
  r("per-replica", [&] { return back(v); });
  r("mirrored", [&] { return back(m); });
  r("tensor", [&] { return back(t); });
  r("host number", [&] { return back(7); });
  r("None", [&] { s.run([&] { context().merge_call([](Strategy&) {}); }); });
  r("nest", [&] {
    const auto [a, b, n] = back(std::tuple(v, std::tuple(m, t), std::optional<int>()));
    return Json({{"dict", {{"a", encode(a)}, {"b", encode(b)}, {"n", encode(n)}}}});
  });
  r("variable", [&] { return back(w) == w; });
  std::vector<int> calls;
  s.run([&] {
    const int mine = replica_id();
    context().merge_call([&, mine](Strategy&) { calls.push_back(mine); });
  });
  r("called by replica", [&] { return calls; });
  r("two merge calls", [&] {
    return s.run([] {
      const auto add = [](Strategy& st, const PerReplica<Tensor>& x) { return st.reduce(kSum, x); };
      const Tensor a = context().merge_call(add, id_tensor() + 1.0);
      return context().merge_call(add, a.to(current_device()) + id_tensor());
    });
  });
  r("in cross-replica context", [&] {
    return s.run([] {
      ReplicaContext& own = context();
      return own.merge_call([&own](Strategy&) { return own.merge_call([](Strategy&) { return 1; }); });
    });
  });
}

}  // namespace lockstep::test
