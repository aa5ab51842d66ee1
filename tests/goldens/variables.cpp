// Variables: single writes, and reads of every kind.
#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

constexpr auto kOnRead = VariableSynchronization::on_read;
using enum VariableAggregation;

Tensor i64(std::int64_t value) { return Tensor::scalar(value); }

}  // namespace

GOLDEN("all-reduce-variable") {
  Replicas s(2);
  const Variable v = variable(s, 2.0, mean);
  r("sum + id", [&] { return s.run([&] { return context().all_reduce(kSum, v) + id_tensor(); }); });
}

GOLDEN("mirrored-none-in-replica") {
  Replicas s(2);
  Variable v = variable(s, 1.0);
  r("assign", [&] { s.run([&] { v.assign(5.0); }); });
  r("components", [&] { return component_list(v); });
}

GOLDEN("mirrored-mean-ids") {
  Replicas s(2);
  const auto record = [&](const std::string& name, double initial, auto write) {
    Variable v = variable(s, initial, mean);
    r(name, [&] { return s.run([&] { return write(v); }); });
    r(name + ": components", [&] { return component_list(v); });
  };
  record("assign", 1, [](Variable& v) { return v.assign(id_tensor()).value(); });
  record("assign_add", 1, [](Variable& v) { return v.assign_add(id_tensor()).value(); });
  record("assign_sub", 5, [](Variable& v) { return v.assign_sub(id_tensor()).value(); });
}

GOLDEN("mirrored-mean-same-value") {
  Replicas s(2);
  const auto record = [&](const std::string& name, double initial, auto write) {
    Variable v = variable(s, initial, mean);
    s.run([&] { write(v); });
    r(name, [&] { return component_list(v); });
  };
  record("assign", 1, [](Variable& v) { v.assign(5.0); });
  record("assign_add", 1, [](Variable& v) { v.assign_add(5.0); });
  record("assign_sub", 5, [](Variable& v) { v.assign_sub(1.0); });
}

GOLDEN("mirrored-sum-same-value") {
  Replicas s(2);
  Variable v = variable(s, 1.0, sum);
  r("assign", [&] { s.run([&] { v.assign(5.0); }); });
  r("components", [&] { return component_list(v); });
}

GOLDEN("mirrored-cross-replica") {
  Replicas s(2);
  Variable v = variable(s, 1.0);
  Variable w = variable(s, 5.0);
  {
    const auto scope = s.scope();
    r("assign_add 6", [&] { return v.assign_add(6.0); });
    r("assign_add 2 without read-back", [&] { v.assign_add(2.0); });
    r("components", [&] { return component_list(v); });
    r("assign_sub 2", [&] { return w.assign_sub(2.0); });
  }
  r("read", [&] { return w.value(); });
}

GOLDEN("only-first-assign-id") {
  Replicas s(2);
  Variable v = variable(s, 15.0, only_first_replica);
  r("returned", [&] { return s.run([&] { return v.assign(id_tensor()).value(); }); });
  r("components", [&] { return component_list(v); });
}

GOLDEN("on-read-sum-assign") {
  Replicas s(2);
  Variable v = variable(s, 1.0, sum, kOnRead);
  const auto scope = s.scope();
  r("read", [&] { return v.value(); });
  v.assign(6.0);
  r("components", [&] { return component_list(v); });
  r("read after assign", [&] { return v.value(); });
}

GOLDEN("on-read-mean-assign") {
  Replicas s(2);
  Variable v = variable(s, 1.0, mean, kOnRead);
  const auto scope = s.scope();
  r("read", [&] { return v.value(); });
  v.assign(6.0);
  r("read after assign", [&] { return v.value(); });
}

GOLDEN("on-read-replica-assign") {
  Replicas s(2);
  for (const VariableAggregation aggregation : {sum, mean, only_first_replica}) {
    Variable v = variable(s, 5.0, aggregation, kOnRead);
    s.run([&] { v.assign(id_tensor()); });
    r(text(aggregation), [&] { return v.value(); });
  }
}

GOLDEN("on-read-none") {
  Replicas s(2);
  const Variable v = variable(s, 5.0, none, kOnRead);
  r("in R", [&] { return s.run([&] { return v.value(); }); });
  r("in X", [&] { return v.value(); });
}

GOLDEN("on-read-accumulate") {
  Replicas s(2);
  Variable total = variable(s, 1.0, sum, kOnRead);
  Variable average = variable(s, 4.0, mean, kOnRead);
  const auto result = s.run([&] {
    total.assign_add(id_tensor() + 2.0);
    average.assign(id_tensor() * 6.0);
    return std::tuple(total, average);
  });
  r("run returned the variables", [&] { return result == std::tuple(total, average); });
  r("total: components", [&] { return component_list(total); });
  r("total", [&] { return total.value(); });
  r("mean: components", [&] { return component_list(average); });
  r("mean", [&] { return average.value(); });
}

GOLDEN("on-read-update-unsplit") {
  Replicas s(2);
  const Variable v = variable(s, 1.0, sum, kOnRead);
  s.extended().update(v, [](Tensor& local) { local.fill_(5.0); });
  r("components", [&] { return component_list(v); });
  r("read", [&] { return v.value(); });
}

GOLDEN("on-read-integers") {
  Replicas s(2);
  for (const VariableAggregation aggregation : {none, sum, only_first_replica}) {
    Variable v = variable(s, i64(0), aggregation, kOnRead);
    v.assign(7);
    r(text(aggregation) + ": components", [&] { return component_list(v); });
    if (aggregation != none) r(text(aggregation) + ": read", [&] { return v.value(); });
  }
  Replicas t(3);
  Variable v = variable(t, i32(0), sum, kOnRead);
  v.assign(8);
  r("three replicas, 8: components", [&] { return component_list(v); });
  v.assign(-7);
  r("three replicas, -7: components", [&] { return component_list(v); });
  r("three replicas, -7: read", [&] { return v.value(); });
}

GOLDEN("reads") {
  Replicas s(2);
  for (const VariableAggregation aggregation : aggregations()) {
    for (const DType dtype : {DType::f32, DType::i64}) {
      if (dtype == DType::i64 && aggregation == mean) continue;
      const auto number = [&](int x) { return i64(x).cast(dtype); };
      Variable v = variable(s, number(0), aggregation, kOnRead);
      s.run([&] { v.assign(number(replica_id() + 3)); });
      const std::string key = text(aggregation) + (dtype == DType::f32 ? " float32: " : " int64: ");
      {
        const auto scope = s.scope();
        r(key + "X read_value", [&] { return v.value(); });
        r(key + "X value", [&] { return static_cast<Tensor>(v); });
        r(key + "X + 0", [&] { return v + number(0); });
      }
      r(key + "D read_value", [&] { return v.value(); });
      r(key + "R read_value", [&] { return s.run([&] { return v.value(); }); });
      r(key + "R + 0", [&] { return s.run([&] { return v + number(0); }); });
      r(key + "U read of the component",
        [&] { return s.extended().update(v, [](Tensor& local) { return local.clone(); }); });
      r(key + "U read of the variable",
        [&] { return s.extended().update(v, [&](Tensor&) { return v.value(); }); });
      r(key + "merge function",
        [&] { return s.run([&] { return context().merge_call([&](Strategy&) { return v.value(); }); }); });
      r(key + "read_var", [&] { return s.extended().read_var(v); });
    }
  }
  Variable first = variable(s, Tensor::scalar(false), only_first_replica, kOnRead);
  s.run([&] { first.assign(Tensor::scalar(replica_id() == 0)); });
  r("only_first_replica boolean: D", [&] { return first.value(); });
  r("sum boolean: D", [&] { return variable(s, Tensor::scalar(false), sum, kOnRead).value(); });
  const Variable m = variable(s, 5.0);
  {
    const auto scope = s.scope();
    r("mirrored: X", [&] { return m.value(); });
    r("mirrored: read_var", [&] { return s.extended().read_var(m); });
  }
  r("mirrored: R", [&] { return s.run([&] { return m.value(); }); });
  s.extended().update(m, [](Tensor& local) { local.fill_(5.0 + *get_update_replica_id()); });
  const auto scope = s.scope();
  r("mirrored {5, 6}: X on CPU:0", [&] { return m.value(); });
  {
    const DeviceScope here(TestBackend::device(1));
    r("mirrored {5, 6}: X on CPU:1", [&] { return m.value(); });
    r("mirrored {5, 6}: + 0 on CPU:1", [&] { return m + 0.0; });
  }
  const DeviceScope elsewhere(Device(DeviceKind::cpu, 3));
  r("mirrored {5, 6}: X on CPU:3", [&] { return m.value(); });
}

GOLDEN("reads-sync-on-read-guard") {
  Replicas s(2);
  for (const VariableAggregation aggregation : aggregations()) {
    Variable v = variable(s, 0.0, aggregation, kOnRead);
    s.run([&] { v.assign(id_tensor() * 2.0 + 1.0); });
    const auto guarded = [&](auto read) {
      return s.run([&] {
        const sync_on_read guard;
        return read();
      });
    };
    const std::string key = text(aggregation) + ": ";
    r(key + "+ 0", [&] { return guarded([&] { return v + 0.0; }); });
    r(key + "as a tensor", [&] { return guarded([&] { return static_cast<Tensor>(v); }); });
    r(key + "as a tensor, in a function", [&] { return guarded([&] { return static_cast<Tensor>(v); }); });
    r(key + "read_value", [&] { return guarded([&] { return v.value(); }); });
  }
  const Variable m = variable(s, 5.0);
  r("mirrored: + 0", [&] {
    return s.run([&] {
      const sync_on_read guard;
      return m + 0.0;
    });
  });
}

GOLDEN("reads-as-values") {
  Replicas m(2);
  Central c(2);
  const auto program = [&](const std::string& name, Strategy& s, const Variable& v) {
    const auto read = [&] { return v.value(); };
    r(name + ": sum of run's result", [&] { return s.reduce(kSum, s.run(read)); });
    r(name + ": mean of run's result", [&] { return s.reduce(kMean, s.run(read)); });
    Variable total = variable(s, 0.0, sum);
    r(name + ": assigned with sum", [&] {
      s.run([&] { total.assign(read()); });
      return s.local_results(total)[0];
    });
    r(name + ": all_reduce of the read",
      [&] { return s.run([&] { return context().all_reduce(kSum, read()); }); });
    r(name + ": read + 0 assigned with sum", [&] {
      s.run([&] { total.assign(read() + 0.0); });
      return s.local_results(total)[0];
    });
  };
  program("mirrored", m, variable(m, 3.0));
  program("plain variable", m, Variable(f32(3)));
  program("CentralStorage", c, variable(c, 3.0));
  program("on_read", m, variable(m, 3.0, sum, kOnRead));
}

}  // namespace lockstep::test
