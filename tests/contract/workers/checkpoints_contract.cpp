#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/expected.hpp"
#include "support/world.hpp"

/// Checkpoints of several workers: all call, the first one writes.
namespace lockstep::test {

namespace {

using Aggregation = VariableAggregation;
namespace fs = std::filesystem;

/// A file's path, the same for all workers and another one in each test.
fs::path new_path(const std::string& name) { return world().folder / (name + ".safetensors"); }

/// Variables of each kind, and what they read as.
struct State {
  Variable mirrored, sum, mean;

  explicit State(Strategy& strategy)
      : mirrored(strategy.make_variable(Tensor::zeros({3}),
                                        {.name = "mirrored", .aggregation = Aggregation::sum})),
        sum(strategy.make_variable(Tensor::scalar(0.0f), {.name = "sum",
                                                          .synchronization = VariableSynchronization::on_read,
                                                          .aggregation = Aggregation::sum})),
        mean(
            strategy.make_variable(Tensor::scalar(0.0f), {.name = "mean",
                                                          .synchronization = VariableSynchronization::on_read,
                                                          .aggregation = Aggregation::mean})) {}

  /// As replicas leave them.
  void write(Strategy& strategy) {
    strategy.run([&](ReplicaContext& ctx) {
      const auto id = static_cast<float>(ctx.replica_id_in_sync_group());
      mirrored.assign(Tensor::from<float>({id, 1, 2 * id}, {3}));
      sum.assign(Tensor::scalar(id + 1));
      mean.assign(Tensor::scalar(2 * id));
    });
  }
  void clear() {
    mirrored.assign(Tensor::zeros({3}));
    sum.assign(0.0f);
    mean.assign(0.0f);
  }
  /// Whether they are as `write` leaves them with the world's replicas.
  bool is_written() const {
    const auto n = static_cast<float>(world().num_replicas);
    const float ids = n * (n - 1) / 2;
    return mirrored.value().to_vector<float>() == std::vector<float>{ids, n, 2 * ids} &&
           sum.value().item<float>() == ids + n && mean.value().item<float>() == 2 * ids / n;
  }
  Checkpoint checkpoint() const { return Checkpoint({{"mirrored", mirrored}, {"sum", sum}, {"mean", mean}}); }
};

}  // namespace

TEST_CASE("what the workers save they restore", "[workers]") {
  const World& w = world();
  State state(w.strategy);
  state.write(w.strategy);
  CHECK(state.is_written());
  Checkpoint checkpoint = state.checkpoint();
  const fs::path path = new_path("round-trip");
  checkpoint.save(path);
  CHECK(fs::exists(path));
  state.clear();
  CHECK_FALSE(state.is_written());
  checkpoint.restore(path);
  CHECK(state.is_written());
  // A sum is divided among all workers' replicas.
  const auto shares = w.strategy.run([&] { return state.sum.value().item<float>(); });
  const auto n = static_cast<float>(w.num_replicas);
  for (const float share : shares) CHECK(share == (n * (n - 1) / 2 + n) / n);
}

TEST_CASE("only the first worker writes a checkpoint", "[workers]") {
  const World& w = world();
  State state(w.strategy);
  state.write(w.strategy);
  const fs::path own = new_path("of-worker-" + std::to_string(w.worker));
  state.checkpoint().save(own);
  CHECK(fs::exists(own) == (w.worker == 0));
  CHECK(fs::exists(new_path("of-worker-0")));
}

TEST_CASE("a checkpoint that cannot be written throws on every worker", "[workers]") {
  const World& w = world();
  State state(w.strategy);
  state.write(w.strategy);
  const Thrown thrown =
      thrown_once(w.strategy, [&] { state.checkpoint().save(w.folder / "missing" / "x.safetensors"); });
  CHECK(thrown.is<Error>());
  if (w.worker == 0) CHECK(thrown.is<NotFound>());
  CHECK(thrown.has("missing"));
  CHECK(state.is_written());
}

TEST_CASE("a checkpoint that is not there throws on every worker, and changes nothing", "[workers]") {
  const World& w = world();
  State state(w.strategy);
  state.write(w.strategy);
  Checkpoint checkpoint = state.checkpoint();
  const Thrown thrown = thrown_once(w.strategy, [&] { checkpoint.restore(new_path("never-written")); });
  CHECK(thrown.is<Error>());
  if (w.worker == 0) CHECK(thrown.is<NotFound>());
  CHECK(thrown.has("never-written"));
  CHECK(state.is_written());
}

TEST_CASE("a checkpoint is restored onto another strategy, and onto one process", "[workers]") {
  const World& w = world();
  const fs::path path = new_path("across");
  State state(w.strategy);
  state.write(w.strategy);
  state.checkpoint().save(path);

  const auto second = w.make_strategy();
  State elsewhere(*second);
  elsewhere.checkpoint().restore(path);
  CHECK(elsewhere.is_written());

  State alone(one_process());
  alone.checkpoint().restore(path);
  CHECK(alone.is_written());

  OneDeviceStrategy one(w.devices[0]);
  State single(one);
  single.checkpoint().restore(path);
  CHECK(single.is_written());
}

TEST_CASE("one process's checkpoint is restored by several workers", "[workers]") {
  const World& w = world();
  const fs::path path = new_path("from-one");
  if (w.worker == 0) {
    State alone(one_process());
    alone.write(one_process());
    alone.checkpoint().save(path);
  }
  CHECK(is_usable(w.strategy));  // the file is there when the others come
  State state(w.strategy);
  state.checkpoint().restore(path);
  CHECK(state.is_written());
}

TEST_CASE("an optimizer and a metric go on from a checkpoint as if nothing had happened", "[workers]") {
  const World& w = world();
  const auto scope = w.strategy.scope();
  const fs::path path = new_path("training");
  struct Training {
    Variable variable{Tensor::from<float>({1, 2, 3}, {3}), {.name = "w"}};
    optim::Adam adam{{.learning_rate = 0.1}};
    metrics::Mean mean;
    Checkpoint checkpoint{{{"w", variable}}};

    Training() {
      adam.build({variable});
      checkpoint.add("adam", adam).add("mean", mean);
    }
    void step(Strategy& strategy) {
      strategy.run([&](ReplicaContext& ctx) {
        const auto id = static_cast<float>(ctx.replica_id_in_sync_group() + 1);
        adam.apply_gradients({{Tensor::from<float>({id, 0.3f, -id}, {3}), variable}});
        mean.update(Tensor::scalar(id));
      });
    }
  };
  Training first;
  for (int step = 0; step < 3; ++step) first.step(w.strategy);
  first.checkpoint.save(path);
  for (int step = 0; step < 3; ++step) first.step(w.strategy);
  Training second;
  second.checkpoint.restore(path);
  for (int step = 0; step < 3; ++step) second.step(w.strategy);
  CHECK(difference(second.variable.value(), first.variable.value()) == "");
  CHECK(second.mean.result().item<double>() == first.mean.result().item<double>());
  CHECK(second.adam.iterations().value().item<std::int64_t>() == 6);
}

TEST_CASE("a checkpoint manager keeps the newest files of all workers", "[workers]") {
  const World& w = world();
  State state(w.strategy);
  const bool is_asynchronous = GENERATE(false, true);
  const fs::path folder = w.folder / (is_asynchronous ? "managed-behind" : "managed");
  Checkpoint checkpoint = state.checkpoint();
  CheckpointManager manager(checkpoint, folder, {.max_to_keep = 2, .asynchronous = is_asynchronous});
  for (int step = 1; step <= 3; ++step) {
    state.write(w.strategy);
    static_cast<void>(manager.save(step));
  }
  manager.wait();
  if (w.worker == 0) CHECK(manager.checkpoints().size() == 2);
  state.clear();
  CHECK(manager.restore_latest() == 3);
  CHECK(state.is_written());
}

TEST_CASE("all workers refuse a step that one of them refuses, or that differs", "[workers]") {
  const World& w = world();
  State state(w.strategy);
  Checkpoint checkpoint = state.checkpoint();
  CheckpointManager manager(checkpoint, w.folder / "steps", {.asynchronous = GENERATE(false, true)});
  const bool is_last = w.worker == w.num_workers - 1;
  const Thrown refused = thrown_once(w.strategy, [&] { manager.save(is_last ? -1 : 1); });
  CHECK(refused.has("CheckpointManager::save: step -1 is negative"));
  if (is_last) CHECK(refused.is<InvalidArgument>());
  if (w.num_workers > 1) {
    const Thrown differs = thrown_once(w.strategy, [&] { manager.save(is_last ? 2 : 1); });
    CHECK(differs.is<CollectiveMismatch>());
    CHECK(differs.has("worker " + std::to_string(w.num_workers - 1) +
                      " calls it for step 2, worker 0 for step 1."));
  }
  manager.wait();
  CHECK(manager.checkpoints().empty());
}

TEST_CASE("what the thread that writes throws, all workers' next calls throw, once", "[workers]") {
  const World& w = world();
  State state(w.strategy);
  state.write(w.strategy);
  const fs::path file = w.folder / "no-folder";
  if (w.worker == 0) std::ofstream(file) << "a file";
  Checkpoint checkpoint = state.checkpoint();
  CheckpointManager manager(checkpoint, file, {.asynchronous = true});
  const auto fails = [&](auto call) {
    static_cast<void>(manager.save(1));
    const Thrown thrown = thrown_once(w.strategy, call);
    CHECK(thrown.is<Error>());
    CHECK(thrown.has("no-folder"));
  };
  fails([&] { manager.wait(); });
  fails([&] { static_cast<void>(manager.save(2)); });
  manager.wait();
  CHECK(is_usable(w.strategy));
}

}  // namespace lockstep::test
