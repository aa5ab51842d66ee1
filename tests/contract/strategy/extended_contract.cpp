#include <any>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/mesh.hpp"
#include "support/replica_values.hpp"

/// StrategyExtended: properties, state beside variables, and steps.
namespace lockstep::test {

namespace {

std::string text(const std::vector<std::any>& values, std::size_t i) {
  return std::any_cast<std::string>(values.at(i));
}

DistributedDataset<PerReplica<Tensor>> numbers(Strategy& strategy, std::int64_t n, std::int64_t batch) {
  return strategy.distribute_dataset(Dataset::range(n).batch(batch));
}

}  // namespace

TEST_CASE("the strategies' properties", "[strategy][extended]") {
  Replicas mirrored(2);
  OneDeviceStrategy one(TestBackend::device(1));
  CentralStorageStrategy central(TestBackend::devices(2), "CPU:0");
  const auto check = [](Strategy& strategy, int n, const std::vector<Device>& workers,
                        const std::vector<Device>& parameters, bool between_graph) {
    const StrategyExtended& x = strategy.extended();
    REQUIRE(strategy.num_replicas_in_sync() == n);
    REQUIRE(x.worker_devices() == workers);
    REQUIRE(x.parameter_devices() == parameters);
    REQUIRE(x.between_graph() == between_graph);
    REQUIRE_FALSE(x.require_static_shapes());
    REQUIRE((x.should_init() && x.should_checkpoint() && x.should_save_summary()));
  };
  check(mirrored, 2, TestBackend::devices(2), TestBackend::devices(2), false);
  check(one, 1, {TestBackend::device(1)}, {TestBackend::device(1)}, false);
  check(central, 2, TestBackend::devices(2), {"CPU:0"}, true);
  CentralStorageStrategy together({TestBackend::device()}, TestBackend::device());
  check(together, 1, {TestBackend::device()}, {TestBackend::device()}, true);
  MeshStrategy mesh(assignment(1, 2));
  check(mesh, 1, {TestBackend::device(0)}, {TestBackend::device(0)}, false);
  const StrategyExtended& plain = get_strategy().extended();
  REQUIRE_THROWS_AS(plain.worker_devices(), ContextError);
  REQUIRE_THROWS_AS(plain.parameter_devices(), ContextError);
  REQUIRE_THROWS_MATCHES(plain.between_graph(), Unsupported, says("between_graph of the default strategy"));
  REQUIRE_THROWS_MATCHES(plain.should_init(), Unsupported,
                         says("should_init of the default strategy", "Ask a strategy that was made"));
  REQUIRE(plain.should_checkpoint());
  REQUIRE(plain.should_save_summary());
  REQUIRE_FALSE(plain.require_static_shapes());
}

TEST_CASE("non-slot-devices: all devices, or those of the variable with the smallest name",
          "[strategy][extended]") {
  const auto variables = [] {
    return std::vector{Variable(Tensor::scalar(1.0f), {.name = "b"}),
                       Variable(Tensor::scalar(2.0f), {.name = "a"})};
  };
  const std::vector<Variable> outside = variables();
  const NonSlot plain = get_strategy().extended().non_slot_devices(outside);
  REQUIRE(plain.variable == outside[1]);
  REQUIRE(plain.devices == std::vector{outside[1].value().device()});
  REQUIRE_THROWS_MATCHES(get_strategy().extended().non_slot_devices({}), InvalidArgument,
                         says("non_slot_devices of the default strategy", "without variables"));

  Replicas mirrored(2);
  const auto scope = mirrored.scope();
  const NonSlot where = mirrored.extended().non_slot_devices(variables());
  REQUIRE(where.devices == TestBackend::devices(2));
  REQUIRE_FALSE(where.variable.has_value());
}

TEST_CASE("non_slot_devices of one device and of central storage", "[strategy][extended]") {
  OneDeviceStrategy one(TestBackend::device());
  REQUIRE(one.extended().non_slot_devices({}).devices == std::vector{TestBackend::device()});
  CentralStorageStrategy central(TestBackend::devices(2), "CPU:0");
  const auto scope = central.scope();
  const Variable b(Tensor::scalar(1.0f), {.name = "b"}), a(Tensor::scalar(1.0f), {.name = "a"});
  const NonSlot where = central.extended().non_slot_devices({b, a});
  REQUIRE(where.variable == a);
  REQUIRE(where.devices == std::vector<Device>{"CPU:0"});
  REQUIRE_THROWS_AS(central.extended().non_slot_devices({}), InvalidArgument);
}

TEST_CASE("central storage on its worker's device is central storage", "[strategy][extended]") {
  CentralStorageStrategy together({TestBackend::device()}, TestBackend::device());
  REQUIRE_THROWS_MATCHES(together.extended().non_slot_devices({}), InvalidArgument,
                         says("without variables"));
  const Variable only = together.make_variable(Tensor::scalar(1.0f), {.name = "only"});
  REQUIRE(together.extended().non_slot_devices({only}).variable == only);
}

TEST_CASE("update-non-slot: one call for each device", "[strategy][extended]") {
  Replicas strategy(3);
  auto& x = strategy.extended();
  std::vector<Device> seen;
  x.update_non_slot(x.non_slot_devices({}), [&] {
    REQUIRE(get_replica_context() == nullptr);
    seen.push_back(current_device());
  });
  REQUIRE(seen == TestBackend::devices(3));

  int calls = 0;
  auto& plain = get_strategy().extended();
  plain.update_non_slot(plain.non_slot_devices({Variable(Tensor::scalar(1.0f))}), [&] { ++calls; });
  REQUIRE(calls == 1);
  OneDeviceStrategy one(TestBackend::device());
  one.extended().update_non_slot(one.extended().non_slot_devices({}), [&] { ++calls; });
  REQUIRE(calls == 2);
}

TEST_CASE("update_non_slot on one device writes every component", "[strategy][extended]") {
  Replicas strategy(2);
  Variable variable = strategy.make_variable(Tensor::scalar(1.0f));
  Variable rows = strategy.make_variable(Tensor::zeros({2, 1}));
  const NonSlot host{{Device(DeviceKind::cpu, 0)}, {}};
  strategy.extended().update_non_slot(host, [&] {
    REQUIRE((in_cross_replica_context() && !get_update_replica_id()));
    variable.assign_add(1.0f);
    rows.scatter_add({Tensor::ones({1, 1}), Tensor::zeros({1}, DType::i64), {2, 1}});
  });
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{2, 2});
  for (const Tensor& component : strategy.local_results(rows))
    REQUIRE(component.to_vector<float>() == std::vector<float>{1, 0});
}

TEST_CASE("update of a variable of one component writes every component of another", "[strategy][update]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(1.0f)), rows(Tensor::zeros({2, 1}));
  const auto one = [&] {
    const auto place = strategy.extended().colocate_vars_with(NonSlot{{Device(DeviceKind::cpu, 0)}, {}});
    return Variable(Tensor::scalar(5.0f));
  }();
  strategy.extended().update(one, [&](Tensor& local) {
    local.add_(variable.value().to(local.device()));
    variable.assign_add(1.0f);
    rows.scatter_add({Tensor::ones({1, 1}), Tensor::zeros({1}, DType::i64), {2, 1}});
    const auto again = strategy.scope();
    REQUIRE(one.value().item<float>() == 6.0f);
  });
  REQUIRE(one.value().item<float>() == 6.0f);
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{2, 2});
  for (const Tensor& component : strategy.local_results(rows))
    REQUIRE(component.to_vector<float>() == std::vector<float>{1, 0});
}

TEST_CASE("update_non_slot hands each call its part of the arguments and keeps results",
          "[strategy][extended]") {
  Replicas strategy(2);
  auto& x = strategy.extended();
  const auto where = x.non_slot_devices({});
  const auto mirrored = x.broadcast_to(Tensor::scalar(2.0f));
  const auto fn = [](const Tensor& value, float factor) {
    return std::pair{value * factor, get_update_replica_id().value()};
  };
  const auto [products, ids] = x.update_non_slot(where, fn, mirrored, 3.0f);
  REQUIRE(items<float>(products) == std::vector<float>{6, 6});
  REQUIRE(products[1].device() == TestBackend::device(1));
  REQUIRE((ids[0] == 0 && ids[1] == 1));
  const auto [lists, id_lists] = x.update_non_slot(ungrouped, where, fn, mirrored, 3.0f);
  REQUIRE(items<float>(lists) == std::vector<float>{6, 6});
  REQUIRE(id_lists == std::vector<int>{0, 1});

  REQUIRE_THROWS_MATCHES(x.update_non_slot(where, fn, scalars<float>({1, 2}), 3.0f), InvalidArgument,
                         says("per-replica value"));
  REQUIRE_THROWS_MATCHES(x.update_non_slot(NonSlot{}, fn, mirrored, 3.0f), InvalidArgument,
                         says("2 components"));
  REQUIRE_THROWS_MATCHES(x.update_non_slot(NonSlot{}, [] {}), InvalidArgument,
                         says("update_non_slot of MirroredStrategy", "neither all worker devices nor one"));
  REQUIRE_THROWS_AS(strategy.run([&] { x.update_non_slot(where, [] {}); }), ContextError);
}

TEST_CASE("call_for_each_replica is run", "[strategy][extended]") {
  Replicas strategy(2);
  const auto ids = strategy.extended().call_for_each_replica(
      [](ReplicaContext& ctx, int base) { return base + ctx.replica_id_in_sync_group(); }, 5);
  REQUIRE((ids[0] == 5 && ids[1] == 6));
}

TEST_CASE("each replica has logical device 0", "[strategy][extended]") {
  Replicas strategy(2);
  {
    const auto device = strategy.extended().logical_device(0);
    const auto again = strategy.extended().logical_device(0);
  }
  REQUIRE_THROWS_MATCHES(strategy.extended().logical_device(1), InvalidArgument,
                         says("logical_device(1) of MirroredStrategy", "number 0"));
  REQUIRE_THROWS_AS(strategy.extended().logical_device(-1), InvalidArgument);
  strategy.run([](ReplicaContext& ctx) { const auto device = ctx.logical_device(0); });
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) { const auto device = ctx.logical_device(2); }),
                         InvalidArgument, says("logical_device(2)"));
}

TEST_CASE("multi-step-outputs: the outputs of the last step, by name", "[strategy][extended]") {
  Replicas strategy(2);
  auto data = numbers(strategy, 12, 4);
  auto iterator = data.iterator();
  int steps = 0;
  const MultiStepContext outputs = strategy.extended().run_steps_on_iterator(
      [&](MultiStepContext& steps_context, const PerReplica<Tensor>& inputs) {
        ++steps;
        const auto losses = strategy.run(
            [&](const Tensor& x) {
              const Tensor loss = sum(x).cast(DType::f32);
              steps_context.set_non_tensor_output("foo", "bar");
              steps_context.set_last_step_output("a", loss, ReduceOp::mean);
              return loss;
            },
            inputs);
        steps_context.set_last_step_output("b", losses, ReduceOp::mean);
        steps_context.set_last_step_output("c", losses);
      },
      iterator, 2);
  REQUIRE(steps == 2);
  REQUIRE(outputs.non_tensor_outputs().at("foo").size() == 1);
  REQUIRE(text(outputs.non_tensor_outputs().at("foo"), 0) == "bar");
  const StepOutputs& last = outputs.last_step_outputs();
  REQUIRE(last.size() == 3);
  REQUIRE(items<float>(last.at("a")) == std::vector<float>{11});  // of 4 + 5 and 6 + 7
  REQUIRE(items<float>(last.at("b")) == std::vector<float>{11});
  REQUIRE(items<float>(last.at("c")) == std::vector<float>{9, 13});
}

TEST_CASE("outputs of a step", "[strategy][extended]") {
  Replicas strategy(2);
  auto data = numbers(strategy, 12, 4);
  auto iterator = data.iterator();
  const MultiStepContext outputs = strategy.extended().run_steps_on_iterator(
      [&, step = 0](MultiStepContext& context, const PerReplica<Tensor>& inputs) mutable {
        if (step++ == 0) context.set_last_step_output("only the first", inputs);
        context.set_last_step_output("twice", Tensor::scalar(1.0f));
        context.set_last_step_output("twice", Tensor::scalar(2.0f));
        context.set_non_tensor_output("number", 7);
        context.set_last_step_output("plain", Tensor::scalar(3.0f), ReduceOp::mean);
        strategy.run([&](ReplicaContext& ctx) {
          context.set_non_tensor_output("ids", ctx.replica_id_in_sync_group());
          context.set_non_tensor_output("same", std::vector<int>{1});
        });
      },
      iterator, 2, {{"initial", PerReplica<Tensor>({Tensor::scalar(9.0f)})}});
  const StepOutputs& last = outputs.last_step_outputs();
  REQUIRE_FALSE(last.contains("only the first"));
  REQUIRE(last.at("twice")[0].item<float>() == 2.0f);
  REQUIRE(last.at("plain")[0].item<float>() == 3.0f);
  REQUIRE(last.at("initial")[0].item<float>() == 9.0f);
  REQUIRE(std::any_cast<int>(outputs.non_tensor_outputs().at("number").at(0)) == 7);
  const auto& ids = outputs.non_tensor_outputs().at("ids");
  REQUIRE((ids.size() == 2 && std::any_cast<int>(ids[1]) == 1));
  REQUIRE(outputs.non_tensor_outputs().at("same").size() == 1);
}

TEST_CASE("replicas that set different outputs are told", "[strategy][extended]") {
  Replicas strategy(2);
  MultiStepContext context(strategy);
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    context.set_last_step_output(ctx.replica_id_in_sync_group() == 0 ? "b" : "a", Tensor::scalar(1.0f),
                                 ReduceOp::mean);
  }),
                         CollectiveMismatch, says("replica 1 sets the output 'a' where replica 0 sets 'b'"));
  REQUIRE_THROWS_AS(strategy.run([&](ReplicaContext& ctx) {
    context.set_non_tensor_output(ctx.replica_id_in_sync_group() == 0 ? "b" : "a", 1);
  }),
                    CollectiveMismatch);
}

TEST_CASE("run_steps_on_iterator refuses what it cannot do", "[strategy][extended]") {
  Replicas strategy(2);
  auto data = numbers(strategy, 8, 4);
  auto iterator = data.iterator();
  const auto nothing = [](MultiStepContext&, const PerReplica<Tensor>&) {};
  for (const int iterations : {0, -1})
    REQUIRE_THROWS_MATCHES(strategy.extended().run_steps_on_iterator(nothing, iterator, iterations),
                           InvalidArgument, says("run_steps_on_iterator", "at least one"));
  REQUIRE_THROWS_MATCHES(strategy.extended().run_steps_on_iterator(
                             [&](MultiStepContext& context, const PerReplica<Tensor>&) {
                               strategy.run([&] { context.set_last_step_output("a", Tensor::scalar(1.0f)); });
                             },
                             iterator),
                         InvalidArgument,
                         says("set_last_step_output('a') in a replica function", "ReduceOp"));
  REQUIRE_THROWS_AS(strategy.extended().run_steps_on_iterator(nothing, iterator, 2), OutOfRange);
  REQUIRE_THROWS_AS(strategy.run([&] { strategy.extended().run_steps_on_iterator(nothing, iterator); }),
                    ContextError);
}

TEST_CASE("P16 what is broadcast or summed is a copy, also with one replica", "[strategy][extended]") {
  for (const int n : {1, 2}) {
    Replicas strategy(n);
    Tensor source = Tensor::ones({1}, DType::f32, TestBackend::device());
    const auto everywhere = strategy.extended().broadcast_to(source);
    const auto there = strategy.extended().broadcast_to(source, TestBackend::device());
    source.fill_(5);
    REQUIRE(everywhere[n - 1].to_vector<float>()[0] == 1);
    REQUIRE(there[0].to_vector<float>()[0] == 1);
  }
  Replicas one(1);
  Tensor source = Tensor::ones({1}, DType::f32, TestBackend::device());
  const auto total = one.extended().reduce_to(ReduceOp::sum, source, TestBackend::device());
  source.fill_(5);
  REQUIRE(total[0].to_vector<float>()[0] == 1);
}

}  // namespace lockstep::test
