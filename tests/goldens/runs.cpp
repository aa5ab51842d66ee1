// Strategy::run: arguments and results.
#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

template <class A, class B>
auto pick(Strategy& s, A a, B b) {
  return s.run([&] { return replica_id() == 0 ? a() : b(); });
}

}  // namespace

GOLDEN("run-chain") {
  Replicas s(2);
  const auto out1 = s.run([] { return id_tensor() + 1.0; });
  r("out1", [&] { return out1; });
  const auto out2 = s.run(
      [](const Tensor& x) {
        return std::map<std::string, Tensor>{{"a", x * 2.0}, {"b", x * x}};
      },
      out1);
  r("out2", [&] { return out2; });
  r("out3", [&] {
    return s.run([](const Tensor& a, const Tensor& b) { return a + b * 2.0 + 2.0; }, out2.at("a"),
                 out2.at("b"));
  });
}

GOLDEN("run-merge-same-object") {
  Replicas s(2);
  const Tensor t = f32(9);
  const auto merged = s.run([&] { return std::tuple(id_tensor(), t); });
  r("merged", [&] { return merged; });
  r("second leaf is the tensor itself", [&] { return std::get<1>(merged)[0].is_same_object(t); });
}

GOLDEN("run-merge-length-mismatch") {
  Replicas s(2);
  r("run", [&] {
    return s.run([] { return std::vector<Tensor>(static_cast<std::size_t>(replica_id()), f32(0)); });
  });
}

GOLDEN("run-one-replica") {
  const auto program = [&](const std::string& name, Strategy& s) {
    const auto out1 = s.run([] { return f32(4); });
    r(name + ": out1", [&] { return out1; });
    const auto out2 = s.run(
        [](const Tensor& x) {
          return std::map<std::string, Tensor>{{"a", x * 2.0}, {"b", x * x}};
        },
        out1);
    r(name + ": out2", [&] { return out2; });
    r(name + ": out3", [&] {
      return s.run([](const Tensor& a, const Tensor& b) { return a + b * 2.0 + 2.0; }, out2.at("a"),
                   out2.at("b"));
    });
    r(name + ": local_results(out1)", [&] { return s.local_results(out1); });
  };
  Replicas s(1);
  program("Mirrored", s);
  OneDevice one;
  program("OneDevice", one);
  program("default", get_strategy());
}

GOLDEN("run-arguments") {
  Replicas s(2);
  const auto v = per_replica({f32(1), f32(2)});
  const Tensor plain = f32(5);
  r("dict", [&] {
    using Given = std::tuple<Tensor, Tensor, int, std::string, std::optional<int>>;
    const auto [p, t, n, x, none] = s.run([](const Given& d) { return d; },
                                          std::tuple(v, plain, 3, std::string("x"), std::optional<int>()));
    return Json(
        {{"dict",
          {{"p", encode(p)}, {"t", encode(t)}, {"n", encode(n)}, {"s", encode(x)}, {"none", encode(none)}}}});
  });
  r("mirrored", [&] {
    return s.run([](const Tensor& x) { return x + id_tensor(); }, mirrored_value({f32(7), f32(7)}));
  });
  r("list", [&] {
    return s.run(
        [](const std::tuple<Tensor, Tensor>& xs) {
          return std::get<0>(xs) + std::get<1>(xs).to(current_device());
        },
        std::tuple(v, plain));
  });
  r("keyword", [&] { return s.run([](const Tensor& x, double y) { return x * y; }, v, 10.0); });
  r("optional left out", [&] { return s.run([](const Tensor& x) { return x; }, v); });
  r("nested per-replica", [&] {
    using Given = std::map<std::string, std::vector<Tensor>>;
    return s.run([](const Given& x) { return x.at("a")[0]; },
                 std::map<std::string, std::vector<PerReplica<Tensor>>>{{"a", {v}}});
  });
}

GOLDEN("run-argument-variable") {
  Replicas s(2);
  const Variable w = variable(s, 1.0, VariableAggregation::sum);
  Variable c = variable(s, 0.0, VariableAggregation::sum, VariableSynchronization::on_read);
  s.run([&] { c.assign(id_tensor() * 5.0); });
  r("sum of reads", [&] { return s.run([](const Variable& a, const Variable& b) { return a + b; }, w, c); });
  r("fn got the variable", [&] { return s.run([&](const Variable& a) { return a == w; }, w); });
  r("returned variable", [&] { return s.run([](const Variable& a) { return a; }, w) == w; });
}

GOLDEN("run-argument-wrong-size") {
  Replicas s(2);
  r("one component", [&] { return s.run([](const Tensor& x) { return x; }, PerReplica<Tensor>({f32(1)})); });
  r("three components", [&] {
    return s.run([](const Tensor& x) { return x; }, PerReplica<Tensor>({f32(1), f32(2), f32(3)}));
  });
}

GOLDEN("run-results-merge") {
  Replicas s(2);
  const Tensor t = f32(1);
  r("None from all", [&] { s.run([] {}); });
  r("None from replica 1",
    [&] { return s.run([] { return replica_id() == 0 ? std::optional(id_tensor()) : std::nullopt; }); });
  r("equal host number", [&] { return s.run([] { return 7; }); });
  r("different host numbers", [&] { return s.run([] { return replica_id(); }); });
  r("equal text", [&] { return s.run([] { return "x"; }); });
  r("different texts", [&] { return s.run([] { return replica_id() == 0 ? "a" : "b"; }); });
  r("equal boolean", [&] { return s.run([] { return true; }); });
  r("different booleans", [&] { return s.run([] { return replica_id() == 0; }); });
  r("same tensor", [&] { return s.run([&] { return t; }); });
  r("equal tensors", [&] { return s.run([] { return f32(1); }); });
  r("list", [&] { return s.run([&] { return std::vector<Tensor>{t, id_tensor()}; }); });
  r("named tuple", [&] { return s.run([&] { return std::tuple(id_tensor(), t); }); });
  r("empty tuple", [&] { return s.run([] { return std::tuple<>(); }); });
  r("empty dict", [&] { return s.run([] { return std::map<std::string, Tensor>(); }); });
  r("large equal host number", [&] { return s.run([] { return std::int64_t{111111111111}; }); });
  r("numpy", [&] { return s.run([] { return static_cast<float>(replica_id()); }); });
}

GOLDEN("run-results-mismatch") {
  Replicas s(2);
  using Map = std::map<std::string, Tensor>;
  r("keys differ", [&] {
    return pick(
        s,
        [] {
          return Map{{"a", f32(0)}};
        },
        [] {
          return Map{{"b", f32(1)}};
        });
  });
  using List = std::vector<Tensor>;
  r("tuple lengths", [&] {
    return pick(
        s, [] { return List{f32(0)}; },
        [] {
          return List{f32(1), f32(2)};
        });
  });
  r("shapes differ", [&] {
    return pick(
        s, [] { return f32s({0}); },
        [] {
          return f32s({1, 2});
        });
  });
  r("dtypes differ", [&] {
    return pick(
        s, [] { return f32(0); }, [] { return i32(1); });
  });
}

}  // namespace lockstep::test
