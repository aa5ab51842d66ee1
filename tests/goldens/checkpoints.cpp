// Checkpoints: what is saved with some replicas and restored onto others, and into other strategies'
// variables.
#include "goldens/file.hpp"
#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

constexpr auto kOnRead = VariableSynchronization::on_read;
constexpr auto kOnWrite = VariableSynchronization::on_write;
using enum VariableAggregation;

Tensor i64(std::int64_t value) { return Tensor::scalar(value); }

}  // namespace

GOLDEN("checkpoint-on-write") {
  Replicas s(2);
  File file;
  Variable v = variable(s, 2.0);
  file.save({{"v", v}});
  v.assign(9.0);
  file.restore({{"v", v}});
  r("into mirrored", [&] { return component_list(v); });
  Variable plain(f32(0));
  file.restore({{"v", plain}});
  r("into plain", [&] { return component_list(plain); });
  plain.assign(3.0);
  file.save({{"v", plain}});
  file.restore({{"v", v}});
  r("plain into mirrored", [&] { return component_list(v); });
}

GOLDEN("checkpoint-round-trip") {
  Replicas s(2);
  for (const VariableSynchronization synchronization : {kOnRead, kOnWrite}) {
    for (const VariableAggregation aggregation : {sum, mean, only_first_replica}) {
      File file;
      Variable v = variable(s, f32s({1, 2, 3, 4}), aggregation, synchronization);
      const Tensor before = v.value().clone();
      file.save({{"v", v}});
      v.assign(f32s({4, 3, 2, 1}));
      file.restore({{"v", v}});
      const std::string key = text(synchronization) + " " + text(aggregation);
      r(key + ": before", [&] { return before; });
      r(key + ": after", [&] { return v.value(); });
    }
  }
}

GOLDEN("checkpoint-replica-counts") {
  Replicas s(2);
  const std::vector<std::tuple<std::string, VariableSynchronization, VariableAggregation, DType>> kinds{
      {"on_write", kOnWrite, none, DType::f32},
      {"sum", kOnRead, sum, DType::f32},
      {"mean", kOnRead, mean, DType::f32},
      {"only_first_replica", kOnRead, only_first_replica, DType::f32},
      {"i64 sum", kOnRead, sum, DType::i64}};
  File file;
  for (const auto& [key, synchronization, aggregation, dtype_now] : kinds) {
    const DType dtype = dtype_now;
    const auto number = [&](int x) { return i64(x).cast(dtype); };
    Variable v = variable(s, number(3), aggregation, synchronization);
    if (synchronization == kOnRead) s.run([&] { v.assign(number(4 - replica_id())); });
    r(key + ": save", [&] { file.save({{"v", v}}); });
    for (const int n : {1, 2, 3, 4}) {
      Replicas t(n);
      Variable w = variable(t, number(0), aggregation, synchronization);
      const std::string count = key + ": N=" + std::to_string(n);
      r(count + ": components", [&] {
        file.restore({{"v", w}});
        return component_list(w);
      });
      r(count + ": read", [&] { return w.value(); });
    }
    Variable plain(number(0));
    r(key + ": plain", [&] {
      file.restore({{"v", plain}});
      return component_list(plain);
    });
  }
  const Variable v = variable(s, 1.0, none, kOnRead);
  r("on_read none: save", [&] { file.save({{"v", v}}); });
  const Variable w = variable(s, 1.0);
  r("on_write: save in run", [&] { s.run([&] { file.save({{"v", w}}); }); });
}

GOLDEN("checkpoint-other-strategies") {
  Replicas s(2);
  File file;
  const Variable v = variable(s, 2.0);
  Variable c = variable(s, 0.0, sum, kOnRead);
  s.run([&] { c.assign(1.5 - id_tensor()); });
  file.save({{"v", v}, {"c", c}});
  const auto both = [](const Variable& a, const Variable& b) {
    std::vector<Tensor> all = a.strategy().local_results(a);
    for (const Tensor& component : b.strategy().local_results(b)) all.push_back(component);
    return all;
  };
  const auto program = [&](const std::string& name, Strategy& t) {
    const Variable w = variable(t, 0.0);
    const Variable d = variable(t, 0.0, sum, kOnRead);
    file.restore({{"v", w}, {"c", d}});
    r("into " + name, [&] { return both(w, d); });
    File back;
    back.save({{"v", w}, {"c", d}});
    const Variable u = variable(s, 0.0);
    const Variable e = variable(s, 0.0, sum, kOnRead);
    back.restore({{"v", u}, {"c", e}});
    r(name + " into Mirrored", [&] { return both(u, e); });
  };
  OneDevice one;
  Central central(2);
  program("OneDevice", one);
  program("CentralStorage", central);
  const RestoreOptions others{.ignore_unknown_entries = true};
  r("another shape", [&] { file.restore({{"v", variable(s, f32s({0, 0}))}}, others); });
  const Variable other = variable(s, 7.0);
  r("a missing key", [&] { file.restore({{"missing", other}}, others); });
  r("a missing key: value kept", [&] { return component_list(other); });
  const Variable whole = variable(s, i64(0));
  r("another dtype", [&] {
    file.restore({{"v", whole}}, others);
    return component_list(whole);
  });
}

}  // namespace lockstep::test
