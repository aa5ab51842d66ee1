// The tables of writes: variables of every synchronization and aggregation, by context and kind of value.
#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

enum class Write { assign, assign_add, assign_sub };
const std::vector<std::pair<Write, std::string>> kWrites{
    {Write::assign, "assign"}, {Write::assign_add, "assign_add"}, {Write::assign_sub, "assign_sub"}};

template <class X>
void write(Write op, Variable v, const X& x) {
  switch (op) {
    case Write::assign: v.assign(x); return;
    case Write::assign_add: v.assign_add(x); return;
    case Write::assign_sub: v.assign_sub(x); return;
  }
}
/// In a function given to `update`.
void write_local(Write op, Tensor& local, const Scalar& x) {
  switch (op) {
    case Write::assign: local.fill_(x); return;
    case Write::assign_add: local.add_(x); return;
    case Write::assign_sub: local.sub_(x); return;
  }
}

/// A variable of tens, written in the strategy's scope (X), in none (D), in `run` (R), in `update` (U) and in
/// a merge function; its components afterwards.
template <Element T>
void write_table(Golden& r, Strategy& s, VariableSynchronization synchronization, bool means_are_made) {
  const auto number = [](int x) { return Tensor::scalar(static_cast<T>(x)); };
  const T host = 4;
  const Tensor same = number(4);
  const auto hosts = [] { return static_cast<T>(2 + 4 * replica_id()); };
  for (const VariableAggregation aggregation : aggregations()) {
    if (aggregation == VariableAggregation::mean && !means_are_made) {
      r("mean creation", [&] { return variable(s, number(10), aggregation, synchronization); });
      continue;
    }
    for (const auto& [op_now, op_name] : kWrites) {
      const Write op = op_now;
      const auto record = [&, name = op_name](const std::string& how, auto act) {
        std::optional<Variable> v;
        r(
            text(aggregation) + " " + name + " " + how,
            [&] {
              v = variable(s, number(10), aggregation, synchronization);
              act(*v);
              return component_list(*v);
            },
            [&] { return v ? component_list(*v) : Json(); });
      };
      const auto in_scope = [&](auto x) {
        return [&, x](const Variable& v) {
          const auto scope = s.scope();
          write(op, v, x);
        };
      };
      record("X host 4", in_scope(host));
      record("X tensor 4", in_scope(same));
      record("X mirrored 4", in_scope(mirrored_value({number(4), number(4)})));
      record("X per-replica 2 6", in_scope(per_replica({number(2), number(6)})));
      record("D host 4", [&](const Variable& v) { write(op, v, host); });
      record("R tensors 2 6",
             [&](const Variable& v) { s.run([&] { write(op, v, number(2 + 4 * replica_id())); }); });
      record("R equal tensors 4", [&](const Variable& v) { s.run([&] { write(op, v, same.clone()); }); });
      record("R captured tensor 4", [&](const Variable& v) { s.run([&] { write(op, v, same); }); });
      record("R host 4", [&](const Variable& v) { s.run([&] { write(op, v, host); }); });
      record("R host 0", [&](const Variable& v) { s.run([&] { write(op, v, T(0)); }); });
      record("R hosts 2 6", [&](const Variable& v) { s.run([&] { write(op, v, hosts()); }); });
      record("U host 4", [&](const Variable& v) {
        s.extended().update(v, [&](Tensor& local) { write_local(op, local, host); });
      });
      record("U of the variable itself, host 4",
             [&](const Variable& v) { s.extended().update(v, [&](Tensor&) { write(op, v, host); }); });
      record("merge function host 4", [&](const Variable& v) {
        s.run([&] { context().merge_call([&](Strategy&) { write(op, v, host); }); });
      });
    }
  }
}

}  // namespace

GOLDEN("writes-on-write-f32") {
  Replicas s(2);
  write_table<float>(r, s, VariableSynchronization::on_write, true);
}

GOLDEN("writes-on-write-i64") {
  Replicas s(2);
  write_table<std::int64_t>(r, s, VariableSynchronization::on_write, false);
}

GOLDEN("writes-on-read-f32") {
  Replicas s(2);
  write_table<float>(r, s, VariableSynchronization::on_read, true);
}

GOLDEN("writes-on-read-i64") {
  Replicas s(2);
  write_table<std::int64_t>(r, s, VariableSynchronization::on_read, false);
}

GOLDEN("writes-central-storage") {
  Central s(2);
  write_table<float>(r, s, VariableSynchronization::automatic, true);
}

GOLDEN("writes-central-storage-on-read") {
  Central s(2);
  write_table<float>(r, s, VariableSynchronization::on_read, true);
}

GOLDEN("one-replica-writes") {
  Replicas s(1);
  for (const VariableAggregation aggregation : aggregations()) {
    Variable v = variable(s, 1.0, aggregation);
    const auto written = [&](const auto& x) {
      s.run([&] { v.assign(x); });
      return component_list(v);
    };
    r(text(aggregation) + " tensor", [&] { return written(f32(5)); });
    r(text(aggregation) + " host", [&] { return written(6.0); });
  }
  Variable v = variable(s, 1.0, VariableAggregation::sum, VariableSynchronization::on_read);
  r("on_read sum assign_add in X", [&] { return v.assign_add(1.0); });
}

GOLDEN("single-device-writes") {
  const auto table = [&](const std::string& name, Strategy& s) {
    for (const auto synchronization : {VariableSynchronization::on_write, VariableSynchronization::on_read}) {
      for (const VariableAggregation aggregation : aggregations()) {
        Variable v = variable(s, 1.0, aggregation, synchronization);
        const std::string key = name + " " + text(synchronization) + " " + text(aggregation) + " ";
        const auto written = [&](auto act) {
          s.run([&] { act(); });
          return component_list(v);
        };
        r(key + "tensor 5", [&] { return written([&] { v.assign(f32(5)); }); });
        r(key + "host 6", [&] { return written([&] { v.assign(6.0); }); });
        r(key + "add host 0", [&] { return written([&] { v.assign_add(0.0); }); });
      }
    }
    r(name + " integer mean", [&] {
      Variable v = variable(s, Tensor::scalar(std::int64_t{1}), VariableAggregation::mean);
      s.run([&] { v.assign(Tensor::scalar(std::int64_t{5})); });
      return component_list(v);
    });
  };
  OneDevice one;
  table("OneDevice", one);
  table("default", get_strategy());
}

GOLDEN("write-returns") {
  Replicas s(2);
  for (const auto synchronization : {VariableSynchronization::on_write, VariableSynchronization::on_read}) {
    const std::string key = text(synchronization) + ": ";
    Variable v = variable(s, 1.0, VariableAggregation::mean, synchronization, "v");
    {
      const auto scope = s.scope();
      r(key + "X assign", [&] { return v.assign(2.0); });
      r(key + "X assign_add", [&] { return v.assign_add(1.0); });
      r(key + "X without read-back", [&] { v.assign(2.0); });
    }
    const auto assigned = [&] { return v.assign(id_tensor()).value(); };
    r(key + "R assign", [&] { return s.run(assigned); });
    r(key + "R assign + 1", [&] { return s.run([&] { return assigned() + 1.0; }); });
    r(key + "R without read-back", [&] { s.run([&] { v.assign(id_tensor()); }); });
  }
}

GOLDEN("write-errors") {
  Replicas s(2);
  Replicas s2(2);
  Variable v = variable(s, f32s({1, 2}), VariableAggregation::mean);
  {
    const auto scope = s.scope();
    r("X other shape", [&] { return v.assign(f32s({1, 2, 3})); });
    r("X other dtype", [&] { return v.assign(i32s({3, 4})); });
    r("X scalar to a vector", [&] { return v.assign(f32(1)); });
    r("X add scalar to a vector", [&] { return v.assign_add(f32(1)); });
  }
  r("R other shape", [&] { s.run([&] { v.assign(Tensor::ones({3}) * id_tensor()); }); });
  r("R other dtype", [&] { s.run([&] { v.assign(Tensor::ones({2}, DType::i32)); }); });
  r("R shapes differ", [&] { s.run([&] { v.assign(Tensor::ones({replica_id() + 1})); }); });
  r("components", [&] { return component_list(v); });
  Variable c = variable(s, 1.0, VariableAggregation::sum, VariableSynchronization::on_read);
  {
    const auto scope = s2.scope();
    r("read in scope of s2", [&] { return v.value(); });
    r("+ 1 in scope of s2", [&] { return v + 1.0; });
    r("assign in scope of s2", [&] { v.assign(f32s({5, 6})); });
    r("on_read: read in scope of s2", [&] { return c.value(); });
    r("on_read: assign in scope of s2", [&] { c.assign(1.0); });
  }
  r("read in run of s2", [&] { return s2.run([&] { return v.value(); }); });
  r("assign in run of s2", [&] { s2.run([&] { v.assign(f32s({5, 6})); }); });
  Variable plain(f32(1));
  {
    const auto scope = s.scope();
    r("plain variable assigned in scope", [&] { return plain.assign(2.0); });
  }
  r("plain variable assigned in run",
    [&] { return s.run([&] { return plain.assign_add(id_tensor() + 1.0).value(); }); });
  r("plain variable", [&] { return component_list(plain); });
}

GOLDEN("scatter") {
  Replicas s(2);
  using Scatter = Variable& (Variable::*)(const IndexedSlices&);
  const std::vector<std::pair<std::string, Scatter>> scatters{
      {"add", &Variable::scatter_add},      {"sub", &Variable::scatter_sub}, {"mul", &Variable::scatter_mul},
      {"div", &Variable::scatter_div},      {"min", &Variable::scatter_min}, {"max", &Variable::scatter_max},
      {"update", &Variable::scatter_update}};
  const auto rows = [](double factor) {
    return IndexedSlices{f32s({1, 2}, {1, 2}) * factor, Tensor::from<std::int64_t>({1}, {1}), {3, 2}};
  };
  const auto fours = [&](VariableAggregation aggregation,
                         VariableSynchronization synchronization = VariableSynchronization::automatic) {
    return variable(s, Tensor::full({3, 2}, 4.0F), aggregation, synchronization);
  };
  const auto row_1 = [&](const Variable& v) {
    std::vector<Tensor> result;
    for (const Tensor& component : s.local_results(v)) result.push_back(component.slice(1, 2).reshape({2}));
    return result;
  };
  for (const VariableAggregation aggregation : aggregations()) {
    for (const auto& [name, scatter_now] : scatters) {
      const Scatter scatter = scatter_now;
      const std::string key = text(aggregation) + " " + name + " ";
      const auto record = [&](const std::string& where, auto act) {
        r(key + where, [&] {
          Variable v = fours(aggregation);
          act(v);
          return row_1(v);
        });
      };
      record("X", [&](Variable& v) {
        const auto scope = s.scope();
        (v.*scatter)(rows(1));
      });
      record("R", [&](Variable& v) { s.run([&] { (v.*scatter)(rows(replica_id() + 1)); }); });
      const IndexedSlices captured = rows(1);
      record("R captured", [&](Variable& v) { s.run([&] { (v.*scatter)(captured); }); });
    }
  }
  Variable c = fours(VariableAggregation::sum, VariableSynchronization::on_read);
  r("on_read add X", [&] { c.scatter_add(rows(1)); });
  r("on_read add R", [&] { s.run([&] { c.scatter_add(rows(1)); }); });
  Variable v = fours(VariableAggregation::sum);
  r("index out of range", [&] {
    v.scatter_add({f32s({1, 2}, {1, 2}), Tensor::from<std::int64_t>({3}, {1}), {3, 2}});
  });
  const IndexedSlices twice{f32s({1, 2, 10, 20}, {2, 2}), Tensor::from<std::int64_t>({1, 1}, {2}), {3, 2}};
  r("one row twice, add", [&] { return row_1(v.scatter_add(twice))[0]; });
  Variable u = fours(VariableAggregation::none);
  r("one row twice, update", [&] { return row_1(u.scatter_update(twice))[0]; });
}

}  // namespace lockstep::test
