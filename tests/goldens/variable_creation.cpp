// Variables: where and how they are made, and those of other strategies and of none.
#include <cctype>

#include "goldens/file.hpp"
#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

constexpr auto kOnRead = VariableSynchronization::on_read;
constexpr auto kOnWrite = VariableSynchronization::on_write;
using enum VariableAggregation;

Tensor i64(std::int64_t value) { return Tensor::scalar(value); }

/// A variable made in a replica.
Variable made(double value, std::string name = {}, VariableAggregation aggregation = none) {
  return Variable(f32(value), {.name = std::move(name), .aggregation = aggregation});
}

}  // namespace

GOLDEN("integer-mean") {
  Replicas s(2);
  Replicas single(1);
  OneDevice one;
  Central central(2);
  r("creation, on_write", [&] { return variable(s, i64(0), mean); });
  r("creation, on_read", [&] { return variable(s, i64(0), mean, kOnRead); });
  r("creation, boolean", [&] { return variable(s, Tensor::scalar(false), mean); });
  r("creation, N=1", [&] { return variable(single, i64(0), mean); });
  r("creation, OneDevice", [&] { return variable(one, i64(0), mean); });
  std::optional<Variable> v;
  r("creation, CentralStorage", [&] { return *(v = variable(central, i64(0), mean)); });
  if (!v) return;
  r("CentralStorage: assign_add of the id", [&] {
    central.run([&] { v->assign_add(i64(replica_id())); });
    return component_list(*v);
  });
  r("CentralStorage: assign_add of host 2", [&] {
    central.run([&] { v->assign_add(2); });
    return component_list(*v);
  });
}

GOLDEN("variable-in-run") {
  Replicas s(2);
  for (const VariableSynchronization synchronization : {kOnWrite, kOnRead}) {
    std::vector<std::optional<Variable>> all(2);
    s.run([&] {
      all[static_cast<std::size_t>(replica_id())] = Variable(
          f32s({1, 2, 3}) * (replica_id() + 1.0), {.synchronization = synchronization, .aggregation = mean});
    });
    r(text(synchronization) + ": same object", [&] { return *all[0] == *all[1]; });
    r(text(synchronization) + ": components equal", [&] {
      const auto parts = s.local_results(*all[0]);
      return parts[0].to_vector<float>() == parts[1].to_vector<float>();
    });
  }
}

GOLDEN("variable-names-in-run") {
  Replicas s(2);
  const auto named = [&](const char* first, const char* second) {
    return s.run([&] { return made(1, replica_id() == 0 ? first : second); });
  };
  r("foo_0 and foo_1", [&] { return named("foo_0", "foo_1"); });
  r("name", [&] { return named("foo_0", "foo_1").name(); });
  r("foo and bar", [&] { return named("foo", "bar"); });
}

GOLDEN("variable-sync-none") {
  Replicas s(2);
  r("creation", [&] { return variable(s, 1.0, none, VariableSynchronization::none); });
}

GOLDEN("variable-properties") {
  Replicas s(2);
  const auto upper = [](std::string_view lower) {
    std::string result(lower);
    for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return result;
  };
  const Variable v = variable(s, 1.0, none, VariableSynchronization::automatic, "v");
  r("name", [&] { return v.name(); });
  r("devices", [&] {
    std::vector<Device> devices;
    for (const Tensor& component : s.local_results(v)) devices.push_back(component.device());
    return devices;
  });
  r("no name", [&] { return variable(s, 1.0).name(); });
  for (const auto& [synchronization, name] :
       {std::pair(VariableSynchronization::automatic, "auto"), std::pair(kOnWrite, "on_write"),
        std::pair(kOnRead, "on_read")}) {
    for (const auto& [trainable, value] :
         {std::pair(std::optional<bool>(), "None"), std::pair(std::optional(true), "True"),
          std::pair(std::optional(false), "False")}) {
      const Variable w = s.make_variable(
          f32(1), {.trainable = trainable, .synchronization = synchronization, .aggregation = sum});
      r(std::string(name) + " trainable " + value,
        [&] { return std::tuple(w.trainable(), upper(lockstep::name(w.synchronization()))); });
    }
  }
  r("aggregation of default", [&] { return upper(name(v.aggregation())); });
  r("callable initial value", [&] { return component_list(s.make_variable([] { return f32(3); })); });
  int calls = 0;
  static_cast<void>(s.make_variable([&] {
    ++calls;
    return f32(3);
  }));
  r("calls of the initial value", [&] { return calls; });
  OneDevice one;
  Variable w = variable(one, 1.0, sum, kOnRead);
  r("OneDevice on_read", [&] { return std::tuple(w.trainable(), upper(name(w.synchronization()))); });
  r("OneDevice on_read read", [&] { return w.value(); });
  r("OneDevice on_read assign_add in X", [&] { return w.assign_add(2.0); });
  Variable n = variable(one, 1.0, none, kOnWrite);
  r("OneDevice none assign in R", [&] { return one.run([&] { return n.assign(5.0); }); });
  r("OneDevice synchronization none",
    [&] { return variable(one, 1.0, none, VariableSynchronization::none); });
  r("default synchronization none",
    [&] { return Variable(f32(1), {.synchronization = VariableSynchronization::none}); });
  const Variable p(f32(1), {.synchronization = kOnRead, .aggregation = sum});
  r("default on_read", [&] {
    return std::tuple(p.trainable(), upper(name(p.synchronization())), upper(name(p.aggregation())));
  });
  Central c(2);
  r("CentralStorage component", [&] { return component_list(variable(c, 1.0, sum)); });
  r("CentralStorage synchronization none",
    [&] { return variable(c, 1.0, none, VariableSynchronization::none); });
}

GOLDEN("variable-creation-in-run") {
  Replicas s(2);
  const auto pick = [&](auto first, auto second) {
    return s.run([&] { return replica_id() == 0 ? first() : second(); });
  };
  const auto named = [&](const char* first, const char* second) {
    return pick([=] { return made(1, first); }, [=] { return made(1, second); });
  };
  const auto pair = s.run([] {
    Variable first = made(1, "a");  // in order
    return std::tuple(first, made(2, "a"));
  });
  r("two of one name", [&] { return pair; });
  r("they differ", [&] { return !(std::get<0>(pair) == std::get<1>(pair)); });
  r("foo1 and foo2", [&] { return named("foo1", "foo2"); });
  r("foo_a and foo_b", [&] { return named("foo_a", "foo_b"); });
  r("a_0/b and a_1/b", [&] { return named("a_0/b", "a_1/b").name(); });
  r("x and x_3", [&] { return named("x", "x_3").name(); });
  r("another shape", [&] {
    return pick([] { return Variable(f32s({1})); }, [] { return Variable(f32s({1, 2})); });
  });
  r("another dtype", [&] { return pick([] { return Variable(f32(1)); }, [] { return Variable(i32(1)); }); });
  r("another initial value", [&] { return pick([] { return made(1); }, [] { return made(9); }); });
  const auto make_in = [&](int maker) {
    s.run([&] {
      if (replica_id() == maker) made(1);
    });
  };
  r("replica 1 makes one more", [&] { make_in(1); });
  r("replica 0 makes one more", [&] {
    make_in(0);
    return 0;
  });
  r("another aggregation", [&] {
    return std::string(
        pick([] { return made(1, {}, sum); }, [] { return made(1, {}, mean); }).aggregation() == sum
            ? "SUM"
            : "MEAN");
  });
  r("in a merge function",
    [&] { return s.run([] { return context().merge_call([](Strategy&) { return made(3); }); }); });
  r("initial value by replica", [&] { return s.run([] { return Variable(id_tensor() + 5.0); }); });
  r("run in scope", [&] {
    const auto scope = s.scope();
    return s.run([] { return made(1, "in_scope"); }).name();
  });
}

GOLDEN("plain-variable-in-scope") {
  Replicas s(2);
  const Variable w = variable(s, 1.0);
  const auto row = [&](const std::string& name, auto act) {
    Variable v(f32(1));
    r(name, [&] { return act(v); });
    r(name + ": afterwards", [&] { return component_list(v); });
  };
  const auto in_scope = [&](auto act) {
    return [&s, act](Variable& v) {
      const auto scope = s.scope();
      return act(v);
    };
  };
  row("read in scope", in_scope([](Variable& v) { return v.value(); }));
  row("+ 1 in scope", in_scope([](Variable& v) { return v + 1.0; }));
  row("read in run", [&](Variable& v) { return s.run([&] { return v.value(); }); });
  row("+ id in run",
      [&](Variable& v) { return s.run([&] { return v.value().to(current_device()) + id_tensor(); }); });
  row("assign 5 in scope", in_scope([](Variable& v) { return v.assign(5.0); }));
  row("assign_add 1 in run", [&](Variable& v) { s.run([&] { v.assign_add(1.0); }); });
  row("assign 5 in a merge function",
      [&](Variable& v) { s.run([&] { context().merge_call([&](Strategy&) { v.assign(5.0); }); }); });
  row("read in update", [&](Variable& v) {
    return s.extended().update(w, [&](Tensor& local) { return local + v.value().to(local.device()); });
  });
  row("argument of run", [&](Variable& v) {
    return s.run([](const Variable& a) { return a.value().to(current_device()) + id_tensor(); }, v);
  });
  row("argument of update", [&](Variable& v) {
    return s.extended().update(
        w, [](Tensor& local, const Variable& a) { return local + a.value().to(local.device()); }, v);
  });
  File file;
  row("saved in scope", in_scope([&](Variable& v) { file.save({{"v", v}}); }));
}

GOLDEN("variable-in-other-scopes") {
  Replicas s(2);
  OneDevice one;
  const Variable w = variable(s, 1.0);
  r("in run of OneDevice", [&] { return one.run([] { return made(2); }); });
  r("in run of the default strategy", [&] { return get_strategy().run([] { return made(2); }); });
  {
    const auto scope = get_strategy().scope();
    r("in the default strategy's scope", [&] { return made(2); });
  }
  StrategyExtended& plain = get_strategy().extended();
  r("created in scope: default", [&] { return plain.variable_created_in_scope(made(1)); });
  r("created in scope: default, mirrored variable", [&] { return plain.variable_created_in_scope(w); });
  r("created in scope: OneDevice",
    [&] { return one.extended().variable_created_in_scope(variable(one, 1.0)); });
}

}  // namespace lockstep::test
