#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/components.hpp"
#include "support/matchers.hpp"
#include "support/mesh.hpp"
#include "support/replica_values.hpp"
#include "support/temporary_directory.hpp"

/// Where work and variables go on a mesh.
namespace lockstep::test {

using Aggregation = VariableAggregation;
using Synchronization = VariableSynchronization;

TEST_CASE("a mesh strategy's properties", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  REQUIRE(mesh.name() == "MeshStrategy");
  REQUIRE(mesh.num_replicas_in_sync() == 2);
  REQUIRE(mesh.num_logical_devices() == 2);
  REQUIRE(mesh.cluster_resolver() == nullptr);
  const StrategyExtended& x = mesh.extended();
  REQUIRE(x.worker_devices() == logical_devices(mesh, 0));
  REQUIRE(x.parameter_devices() == x.worker_devices());
  REQUIRE_FALSE(x.between_graph());
  REQUIRE_FALSE(x.require_static_shapes());
  REQUIRE((x.should_init() && x.should_checkpoint() && x.should_save_summary()));
}

TEST_CASE("a variable made on different logical devices by the replicas is refused", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  const auto make = [](ReplicaContext& ctx, int last) {
    const auto guard = ctx.logical_device(ctx.local_index() == 1 ? last : 1);
    return Variable(Tensor::ones({2}), {.name = "w"});
  };
  REQUIRE_THROWS_MATCHES(mesh.run(make, 0), ContextError,
                         says("Variable 'w': replica 1 makes it on logical device 0",
                              "replica 0 on logical device 1", "Open the same logical_device guards"));
  const Variable made = mesh.run(make, 1);
  REQUIRE(made.value().device() == logical_devices(mesh, 1)[0]);
}

TEST_CASE("logical_device guards nest, count on their thread alone, and end with exceptions",
          "[strategy][mesh]") {
  Mesh mesh(2, 2);
  Replicas other(2);
  const StrategyExtended& x = mesh.extended();
  {
    const auto one = x.logical_device(1);
    REQUIRE(x.worker_devices() == logical_devices(mesh, 1));
    REQUIRE(x.parameter_devices() == logical_devices(mesh, 1));
    REQUIRE(other.extended().worker_devices() == TestBackend::devices(2));
    REQUIRE_FALSE(x.between_graph());
    {
      const auto zero = x.logical_device(0);
      const auto of_another = other.extended().logical_device(0);
      REQUIRE(x.worker_devices() == logical_devices(mesh, 0));
    }
    REQUIRE(x.worker_devices() == logical_devices(mesh, 1));
    std::vector<Device> elsewhere;
    std::thread([&] { elsewhere = x.worker_devices(); }).join();
    REQUIRE(elsewhere == logical_devices(mesh, 0));
    REQUIRE_THROWS_AS(x.logical_device(2), InvalidArgument);
    REQUIRE(x.worker_devices() == logical_devices(mesh, 1));
  }
  REQUIRE(x.worker_devices() == logical_devices(mesh, 0));
  const auto failing = [&] {
    const auto one = x.logical_device(1);
    throw std::runtime_error("in a guard");
  };
  REQUIRE_THROWS_AS(failing(), std::runtime_error);
  REQUIRE(x.worker_devices() == logical_devices(mesh, 0));
}

TEST_CASE("a logical device that is not there is refused", "[strategy][mesh]") {
  Mesh mesh(1, 2);
  const int k = GENERATE(-1, 2);
  REQUIRE_THROWS_MATCHES(
      mesh.extended().logical_device(k), InvalidArgument,
      says("logical_device(" + std::to_string(k) + ") of MeshStrategy", "from number 0 to 1"));
  REQUIRE_THROWS_AS(mesh.run([k](ReplicaContext& ctx) { const auto guard = ctx.logical_device(k); }),
                    InvalidArgument);
  REQUIRE_THROWS_AS(get_strategy().extended().logical_device(k), InvalidArgument);
}

TEST_CASE("in a replica a guard makes its logical device current, with its stream", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  struct Seen {
    std::vector<Device> contexts, currents, streams;
    bool outer_stream = false;
  };
  std::vector<Seen> seen(2);
  const Stream of_caller(logical_devices(mesh, 1)[1]);
  const StreamScope scope(of_caller);
  const auto look = [](const ReplicaContext& ctx, Seen& mine) {
    mine.contexts.push_back(ctx.device());
    mine.currents.push_back(current_device());
    mine.streams.push_back(ctx.stream().device());
  };
  mesh.run([&](ReplicaContext& ctx) {
    Seen& mine = seen[static_cast<std::size_t>(ctx.local_index())];
    look(ctx, mine);
    try {
      const auto one = ctx.logical_device(1);
      look(ctx, mine);
      mine.outer_stream = ctx.stream() == of_caller;
      const auto zero = ctx.logical_device(0);
      look(ctx, mine);
      throw std::runtime_error("in a guard");
    } catch (const std::runtime_error&) {
      look(ctx, mine);
    }
  });
  for (int r = 0; r < 2; ++r) {
    const Device zero = TestBackend::device(2 * r), one = TestBackend::device(2 * r + 1);
    const Seen& mine = seen[static_cast<std::size_t>(r)];
    REQUIRE(mine.contexts == std::vector{zero, one, zero, zero});
    REQUIRE(mine.currents == mine.contexts);
    REQUIRE(mine.streams == mine.contexts);
    REQUIRE(mine.outer_stream == (r == 1));
  }
}

TEST_CASE("a run inside a guard runs on that logical device", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  const auto make = [](ReplicaContext& ctx) { return Tensor::scalar(id_of(ctx)) + 1.0f; };
  REQUIRE(devices_of(mesh.run(make)) == logical_devices(mesh, 0));
  const auto one = mesh.extended().logical_device(1);
  REQUIRE(devices_of(mesh.run(make)) == logical_devices(mesh, 1));
  REQUIRE(items<float>(mesh.run(make)) == std::vector<float>{1, 2});
  const auto inner = mesh.run([](ReplicaContext& ctx) {
    const auto zero = ctx.logical_device(0);
    return Tensor::scalar(id_of(ctx));
  });
  REQUIRE(devices_of(inner) == logical_devices(mesh, 0));
}

TEST_CASE("a merge function, and runs in it, are on replica 0's logical device", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  std::vector<Device> in_merge, in_run;
  const auto sums = mesh.run([&](ReplicaContext& ctx) {
    const auto guard = ctx.logical_device(1 - ctx.local_index());
    return ctx.merge_call(
        [&](Strategy& strategy, const PerReplica<Tensor>& values) {
          in_merge = strategy.extended().worker_devices();
          in_run = devices_of(strategy.run([] { return Tensor::scalar(1.0f); }));
          return strategy.reduce(ReduceOp::sum, values);
        },
        Tensor::scalar(id_of(ctx) + 1.0f));
  });
  REQUIRE(in_merge == logical_devices(mesh, 1));
  REQUIRE(in_run == logical_devices(mesh, 1));
  REQUIRE(items<float>(sums) == std::vector<float>{3, 3});
}

TEST_CASE("variables made in a guard live on that logical device of each replica", "[strategy][mesh]") {
  const int n = GENERATE(1, 2);
  const auto aggregation = Aggregation::sum;
  Mesh mesh(n, 2);
  const auto scope = mesh.scope();
  auto& x = mesh.extended();
  const Variable zero(Tensor::scalar(1.0f), {.name = "zero", .aggregation = aggregation});
  std::optional<Variable> made;
  {
    const auto guard = x.logical_device(1);
    made.emplace(Tensor::scalar(2.0f), VariableOptions{.name = "one", .aggregation = aggregation});
  }
  Variable& one = *made;
  REQUIRE(Destination(zero).devices() == logical_devices(mesh, 0));
  REQUIRE(Destination(one).devices() == logical_devices(mesh, 1));
  REQUIRE(one.value().device() == logical_devices(mesh, 1)[0]);

  // Reads give a replica its component, where it is, also outside guards.
  const auto read = mesh.run([&](ReplicaContext&) { return one.value(); });
  REQUIRE(devices_of(read) == logical_devices(mesh, 1));
  // Writes in replicas are aggregated there.
  mesh.run([&](ReplicaContext& ctx) {
    const auto guard = ctx.logical_device(1);
    one.assign_add(Tensor::scalar(id_of(ctx) + 1.0f));
  });
  REQUIRE(same_everywhere<float>(one) == (n == 1 ? 3.0f : 5.0f));
  one.assign(4.0f);
  std::vector<Device> updated;
  x.update(one, [&](Tensor& local) {
    updated.push_back(current_device());
    local.mul_(2.0f);
  });
  REQUIRE(updated == logical_devices(mesh, 1));
  REQUIRE(same_everywhere<float>(one) == 8.0f);

  const auto beside = x.colocate_vars_with(one);
  const Variable slot(Tensor::scalar(0.0f));
  REQUIRE(Destination(slot).devices() == logical_devices(mesh, 1));
}

TEST_CASE("variables made in a replica's guard are on that logical device", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  const Variable made = mesh.run([](ReplicaContext& ctx) {
    const auto guard = ctx.logical_device(1);
    return Variable([] { return Tensor::scalar(3.0f); });
  });
  REQUIRE(Destination(made).devices() == logical_devices(mesh, 1));
  REQUIRE(same_everywhere<float>(made) == 3.0f);
}

TEST_CASE("on-read variables are on a logical device, too", "[strategy][mesh]") {
  const int n = GENERATE(1, 2);
  Mesh mesh(n, 2);
  Variable counter = [&] {
    const auto guard = mesh.extended().logical_device(1);
    return mesh.make_variable(Tensor::scalar(0.0f),
                              {.synchronization = Synchronization::on_read, .aggregation = Aggregation::sum});
  }();
  // Colocated while another logical device is current.
  Variable beside = [&] {
    const auto scope = mesh.scope();
    const auto place = mesh.extended().colocate_vars_with(counter);
    return Variable(Tensor::scalar(0.0f),
                    {.synchronization = Synchronization::on_read, .aggregation = Aggregation::mean});
  }();
  for (Variable* const variable : {&counter, &beside}) {
    REQUIRE(Destination(*variable).devices() == logical_devices(mesh, 1));
    mesh.run([&](ReplicaContext& ctx) {
      const auto guard = ctx.logical_device(1);
      variable->assign_add(Tensor::scalar(id_of(ctx) + 1.0f));
    });
  }
  REQUIRE(counter.value().item<float>() == (n == 1 ? 1.0f : 3.0f));
  REQUIRE(beside.value().item<float>() == (n == 1 ? 1.0f : 1.5f));
  counter.assign(4.0f);
  REQUIRE(counter.value().item<float>() == 4.0f);
}

TEST_CASE("optimizers update variables on every logical device", "[strategy][mesh][optimizer]") {
  const bool in_replica = GENERATE(true, false);
  Mesh mesh(2, 2);
  std::vector<Variable> weights;
  for (int k = 0; k < 2; ++k) {
    const auto guard = mesh.extended().logical_device(k);
    weights.push_back(mesh.make_variable(Tensor::full({3}, 10.0f), {.name = k == 0 ? "a" : "b"}));
  }
  optim::Momentum optimizer({.learning_rate = 1, .momentum = 0.5});
  const auto gradient = [](ReplicaContext& ctx) {
    std::vector<Tensor> gradients;
    for (int k = 0; k < 2; ++k) {
      const auto guard = ctx.logical_device(k);
      gradients.push_back(Tensor::full({3}, id_of(ctx) + static_cast<float>(k)));
    }
    return gradients;
  };
  for (int step = 0; step < 2; ++step) {
    if (in_replica) {
      mesh.run([&](ReplicaContext& ctx) {
        const auto gradients = gradient(ctx);
        optimizer.apply_gradients({{gradients[0], weights[0]}, {gradients[1], weights[1]}});
      });
    } else {
      const auto gradients = mesh.run(gradient);
      auto& x = mesh.extended();
      const auto reduced =
          x.batch_reduce_to(ReduceOp::sum, {{gradients[0], weights[0]}, {gradients[1], weights[1]}});
      optimizer.apply_gradients({{reduced[0], weights[0]}, {reduced[1], weights[1]}});
    }
  }
  // Gradients add up to 1 and 3; velocities are 1, 1.5 and 3, 4.5.
  REQUIRE(same_everywhere<float>(weights[0]) == 7.5f);
  REQUIRE(same_everywhere<float>(weights[1]) == 2.5f);
  for (const auto& [name, slot] : optimizer.variables()) {
    if (name == "iterations") continue;
    REQUIRE(Destination(slot).devices() == logical_devices(mesh, name.front() == 'a' ? 0 : 1));
  }
}

TEST_CASE("gradients are accumulated and clipped on every logical device", "[strategy][mesh][optimizer]") {
  Mesh mesh(2, 2);
  std::vector<Variable> weights;
  for (int k = 0; k < 2; ++k) {
    const auto guard = mesh.extended().logical_device(k);
    weights.push_back(mesh.make_variable(Tensor::full({1}, 10.0f)));
  }
  optim::SGD optimizer({.learning_rate = 1, .global_clip_norm = 5});
  optim::GradientAccumulator accumulator(2);
  for (int step = 0; step < 2; ++step) {
    mesh.run([&](ReplicaContext& ctx) {
      // Once with each logical device current, and from there.
      const auto guard = ctx.logical_device(step);
      const Tensor a = Tensor::full({1}, 0.75f), b = Tensor::full({1}, 1.0f);
      if (const auto total = accumulator.add({{a * 2.0f, weights[0]}, {b * 2.0f, weights[1]}}))
        optimizer.apply_gradients(*total);
    });
  }
  // The gradients 6 and 8 have the norm 10.
  REQUIRE(same_everywhere<float>(weights[0]) == 7.0f);
  REQUIRE(same_everywhere<float>(weights[1]) == 6.0f);
}

TEST_CASE("checkpoints and metrics know no logical devices", "[strategy][mesh][checkpoint]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Mesh from(2, 2), to(1, 2);
  const auto make = [](Mesh& mesh, float value) {
    const auto guard = mesh.extended().logical_device(1);
    return mesh.make_variable(Tensor::full({2}, value));
  };
  const auto make_mean = [](Mesh& mesh) {
    const auto scope = mesh.scope();
    const auto guard = mesh.extended().logical_device(1);
    return metrics::Mean("mean");
  };
  const Variable saved = make(from, 3.0f);
  metrics::Mean mean = make_mean(from);
  from.run([&](ReplicaContext& ctx) { mean.update(Tensor::scalar(id_of(ctx) + 1.0f)); });
  REQUIRE(mean.result().item<double>() == 1.5);
  Checkpoint of_saved({{"v", saved}});
  of_saved.add("mean", mean);
  of_saved.save(path);

  const Variable restored = make(to, 0.0f);
  metrics::Mean restored_mean = make_mean(to);
  Checkpoint of_restored({{"v", restored}});
  of_restored.add("mean", restored_mean);
  of_restored.restore(path);
  REQUIRE(same_everywhere<float>(restored) == 3.0f);
  REQUIRE(Destination(restored).devices() == logical_devices(to, 1));
  REQUIRE(restored_mean.result().item<double>() == 1.5);
}

TEST_CASE("a mesh's state of no variable is on the host: one call", "[strategy][mesh]") {
  Mesh mesh(2, 2);
  auto& x = mesh.extended();
  const NonSlot where = x.non_slot_devices({});
  REQUIRE(where.devices == std::vector<Device>{"CPU:0"});
  REQUIRE_FALSE(where.variable.has_value());
  std::vector<Device> seen;
  x.update_non_slot(where, [&] { seen.push_back(current_device()); });
  REQUIRE(seen == std::vector<Device>{"CPU:0"});
  const auto scope = mesh.scope();
  const auto guard = x.colocate_vars_with(where);
  REQUIRE(Destination(Variable(Tensor::scalar(1.0f))).devices() == std::vector<Device>{"CPU:0"});
}

TEST_CASE("a mesh's input goes to logical device 0", "[strategy][mesh][input]") {
  Mesh mesh(2, 2);
  const auto guard = mesh.extended().logical_device(1);
  for (const auto& batch : mesh.distribute_dataset(Dataset::range(8).batch(4)))
    REQUIRE(devices_of(batch) == logical_devices(mesh, 0));
  std::vector<InputContext> contexts;
  const auto dealt = mesh.distribute_datasets_from_function([&](const InputContext& context) {
    contexts.push_back(context);
    return Dataset::range(8).batch(context.get_per_replica_batch_size(4));
  });
  for (const auto& batch : dealt) REQUIRE(devices_of(batch) == logical_devices(mesh, 0));
  REQUIRE(contexts.size() == 1);
  REQUIRE(contexts[0].num_input_pipelines() == mesh.num_hosts());
  REQUIRE(contexts[0].input_pipeline_id() == 0);
  REQUIRE(contexts[0].num_replicas_in_sync() == 2);
}

}  // namespace lockstep::test
