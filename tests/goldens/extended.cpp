// StrategyExtended: properties, non-slot devices, colocation, containers, steps.
#include <any>

#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

/// run_steps_on_iterator over steps {0, 1} and {2, 3}.
template <class Act>
MultiStepContext multi_step(Strategy& s, Act act, int iterations, const StepOutputs& initial = {}) {
  const auto dataset =
      s.distribute_dataset(Dataset::from_tensor_slices(f32s({0, 1, 2, 3}).to(Device())).batch(2));
  auto iterator = dataset.iterator();
  return s.extended().run_steps_on_iterator(act, iterator, iterations, initial);
}

/// The devices of a variable's components.
Json devices_of(const Variable& variable) {
  std::vector<Device> devices;
  for (const Tensor& component : variable.strategy().local_results(variable))
    devices.push_back(component.device());
  return encode(devices);
}

}  // namespace

GOLDEN("non-slot-devices") {
  Replicas s(2);
  Central c(2);
  OneDevice one;
  const auto named = [](Strategy& strategy, const char* name) {
    return variable(strategy, 1.0, VariableAggregation::none, VariableSynchronization::automatic, name);
  };
  const auto where = [](Strategy& strategy, const std::vector<Variable>& variables) {
    return strategy.extended().non_slot_devices(variables);
  };
  r("Mirrored", [&] { return where(s, {named(s, "b"), named(s, "a")}).devices; });
  const auto is_first = [&](Strategy& strategy) {
    const Variable b = named(strategy, "b");
    const Variable a = named(strategy, "a");
    return where(strategy, {b, a}).variable == a;
  };
  r("default", [&] { return is_first(get_strategy()); });
  r("CentralStorage", [&] { return is_first(c); });
  r("OneDevice", [&] { return where(one, {named(one, "a")}).devices; });
  r("Mirrored, no variables", [&] { return where(s, {}).devices; });
  r("default, no variables", [&] { return where(get_strategy(), {}).devices; });
}

GOLDEN("variable-created-in-scope") {
  Replicas s(2);
  Replicas other(2);
  const Variable inside = variable(s, 1.0);
  const Variable outside(f32(1));
  r("Mirrored: made in scope", [&] { return s.extended().variable_created_in_scope(inside); });
  r("Mirrored: made outside", [&] { return s.extended().variable_created_in_scope(outside); });
  r("default: made in scope", [&] { return get_strategy().extended().variable_created_in_scope(inside); });
  r("default: made outside", [&] { return get_strategy().extended().variable_created_in_scope(outside); });
  r("another strategy's", [&] { return other.extended().variable_created_in_scope(inside); });
}

GOLDEN("value-container") {
  Replicas s(2);
  const Variable v = variable(s, 1.0);
  const Tensor t = f32(1);
  const auto contains = [&](const Tensor& value) { return s.extended().value_container(value); };
  r("component 1", [&] { return std::get<Variable>(contains(s.local_results(v)[1])) == v; });
  r("the variable", [&] { return s.extended().value_container(v) == v; });
  r("a tensor", [&] { return std::get<Tensor>(contains(t)).is_same_object(t); });
}

GOLDEN("value-container-table") {
  Replicas s(2);
  const Variable c = variable(s, 1.0, VariableAggregation::sum, VariableSynchronization::on_read);
  const auto of = [](Strategy& strategy, const Variable& variable) {
    const auto container = strategy.extended().value_container(strategy.local_results(variable)[0]);
    return std::holds_alternative<Variable>(container) && std::get<Variable>(container) == variable;
  };
  r("on_read component", [&] { return of(s, c); });
  r("in local_results of its container", [&] {
    const Variable v = variable(s, 1.0);
    const Tensor component = s.local_results(v)[1];
    bool is_there = false;
    for (const Tensor& one : s.local_results(std::get<Variable>(s.extended().value_container(component))))
      is_there = is_there || one.is_same_object(component);
    return is_there;
  });
  r("container gone", [&] {
    const Tensor component = s.local_results(variable(s, 1.0))[1];
    return std::get<Tensor>(s.extended().value_container(component)).is_same_object(component);
  });
  OneDevice one;
  r("OneDevice", [&] { return of(one, variable(one, 1.0)); });
  Central k(2);
  r("CentralStorage, its plain variable", [&] { return of(k, variable(k, 1.0)); });
}

GOLDEN("read-var") {
  Replicas s(2);
  const Variable m = variable(s, 3.0);
  const Variable plain(f32(1));
  {
    const auto scope = s.scope();
    r("mirrored in X", [&] { return s.extended().read_var(m); });
    r("a plain variable", [&] { return s.extended().read_var(plain); });
  }
  const auto record = [&](const std::string& name, Strategy& o) {
    r(name, [&] { return o.extended().read_var(variable(o, 3.0)); });
  };
  OneDevice one;
  Central central(2);
  record("OneDevice", one);
  record("CentralStorage", central);
  record("default", get_strategy());
}

GOLDEN("multi-step-outputs") {
  Replicas s(2);
  std::optional<MultiStepContext> box;
  r("runs", [&] {
    box = multi_step(
        s,
        [&](MultiStepContext& c, const PerReplica<Tensor>& inputs) {
          const auto loss = s.extended().call_for_each_replica(
              [&](const Tensor& x) {
                c.set_non_tensor_output("foo", "bar");
                const Tensor sum = x.reshape({}) + 0.0;
                c.set_last_step_output("a", sum, kMean);
                return sum;
              },
              inputs);
          c.set_last_step_output("b", loss, kMean);
          c.set_last_step_output("c", loss);
        },
        2);
    return true;
  });
  r("a", [&] { return box->last_step_outputs().at("a"); });
  r("b", [&] { return box->last_step_outputs().at("b"); });
  r("c", [&] { return box->last_step_outputs().at("c"); });
  r("foo", [&] {
    std::vector<std::string> texts;
    for (const std::any& one : box->non_tensor_outputs().at("foo"))
      texts.push_back(std::any_cast<std::string>(one));
    return texts;
  });
}

GOLDEN("multi-step-table") {
  Replicas s(2);
  using Step = PerReplica<Tensor>;
  const auto scalars = [&](const Step& inputs) {
    return s.extended().call_for_each_replica([](const Tensor& x) { return x.reshape({}) + 0.0; }, inputs);
  };
  const auto sum_of = [&](MultiStepContext& c, const Step& inputs) {
    c.set_last_step_output("m", scalars(inputs), kSum);
  };
  const StepOutputs seven{{"m", PerReplica<Tensor>({f32(7)})}};
  r("name set twice", [&] {
    return multi_step(
               s,
               [&](MultiStepContext& c, const Step& inputs) {
                 c.set_last_step_output("m", scalars(inputs), kSum);
                 c.set_last_step_output("m", scalars(inputs), kMean);
               },
               2)
        .last_step_outputs()
        .at("m");
  });
  r("without an operator in R", [&] {
    multi_step(
        s,
        [&](MultiStepContext& c, const Step& inputs) {
          s.extended().call_for_each_replica([&](const Tensor& x) { c.set_last_step_output("m", x); },
                                             inputs);
        },
        2);
  });
  r("iterator ends early", [&] { multi_step(s, sum_of, 3); });
  r("0 iterations", [&] { multi_step(s, sum_of, 0, seven); });
  r("non-tensor in X", [&] {
    const auto outputs =
        multi_step(
            s, [](MultiStepContext& c, const Step&) { c.set_non_tensor_output("k", "v"); }, 2)
            .non_tensor_outputs();
    return std::any_cast<std::string>(outputs.at("k")[0]);
  });
  r("non-tensor, different, in R", [&] {
    const auto outputs = multi_step(
                             s,
                             [&](MultiStepContext& c, const Step&) {
                               s.run([&] { c.set_non_tensor_output("k", std::to_string(replica_id())); });
                             },
                             2)
                             .non_tensor_outputs();
    std::vector<std::string> texts;
    for (const std::any& value : outputs.at("k")) texts.push_back(std::any_cast<std::string>(value));
    return texts;
  });
  r("no initial values", [&] { return multi_step(s, sum_of, 2).last_step_outputs().at("m"); });
}

GOLDEN("extended-properties") {
  const auto table = [&](const std::string& name, Strategy& s) {
    const StrategyExtended& x = s.extended();
    r(name + ": worker_devices", [&] { return x.worker_devices(); });
    r(name + ": parameter_devices", [&] { return x.parameter_devices(); });
    r(name + ": num_replicas_in_sync", [&] { return s.num_replicas_in_sync(); });
    r(name + ": experimental_between_graph", [&] { return x.between_graph(); });
    r(name + ": experimental_require_static_shapes", [&] { return x.require_static_shapes(); });
    r(name + ": experimental_should_init", [&] { return x.should_init(); });
    r(name + ": should_checkpoint", [&] { return x.should_checkpoint(); });
    r(name + ": should_save_summary", [&] { return x.should_save_summary(); });
    r(name + ": cluster_resolver", [&] { return s.cluster_resolver() == nullptr ? Json() : Json(1); });
  };
  Replicas mirrored(2);
  OneDevice one;
  Central central(2);
  table("Mirrored", mirrored);
  table("OneDevice", one);
  table("CentralStorage", central);
  table("default", get_strategy());
}

GOLDEN("mirrored-devices") {
  const auto make = [](const std::vector<Device>& devices) {
    return MirroredStrategy(devices).extended().worker_devices();
  };
  const Device first = TestBackend::device(0);
  const std::string name(lockstep::name(first.kind()));
  r("twice", [&] { return make({first, first}); });
  r("twice, two names", [&] { return make({first, Device("/device:" + name + ":0")}); });
  r("order", [&] { return make({TestBackend::device(3), TestBackend::device(1)}); });
  r("ids in that order", [&] {
    MirroredStrategy s({TestBackend::device(3), TestBackend::device(1)});
    return s.run([] { return std::vector<Json>{encode(replica_id()), encode(id_tensor().device())}; });
  });
  r("canonical name", [&] {
    std::vector<std::string> names;
    for (const Device& device : make({TestBackend::device(1), first})) {
      names.push_back(device.canonical_name());
      const auto at = names.back().find("device:") + 7;
      names.back().replace(at, 3, "CPU");
    }
    return names;
  });
}

GOLDEN("colocate-table") {
  MirroredStrategy s({TestBackend::device(1), TestBackend::device(3)});
  Replicas other(2);
  const Variable v = variable(s, 1.0);
  const Variable c = variable(s, 1.0, VariableAggregation::sum, VariableSynchronization::on_read);
  const Variable outside(f32(1));
  const Variable foreign = variable(other, 1.0);
  const auto make = [](Strategy& strategy, const auto& beside) {
    const auto scope = strategy.scope();
    const auto guard = strategy.extended().colocate_vars_with(beside);
    return devices_of(Variable(f32(2)));
  };
  r("mirrored", [&] { return make(s, v); });
  r("on_read", [&] { return make(s, c); });
  r("nested", [&] {
    const auto scope = s.scope();
    const auto guard = s.extended().colocate_vars_with(v);
    return make(s, c);
  });
  r("made outside", [&] { return make(s, outside); });
  r("another strategy's", [&] { return make(s, foreign); });
  r("non-slot devices", [&] { return make(s, s.extended().non_slot_devices({v})); });
  r("outside the scope", [&] {
    const auto guard = s.extended().colocate_vars_with(v);
    return 0;
  });
  r("in run", [&] { s.run([&] { const auto guard = s.extended().colocate_vars_with(v); }); });
  OneDevice one;
  r("OneDevice", [&] { return make(one, variable(one, 1.0)); });
  r("OneDevice, made outside", [&] { return make(one, outside); });
}

}  // namespace lockstep::test
