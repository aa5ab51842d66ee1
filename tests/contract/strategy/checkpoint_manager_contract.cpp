#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/replica_values.hpp"
#include "support/temporary_directory.hpp"

/// Checkpoints that are saved while training goes on.
namespace lockstep::test {

using enum VariableAggregation;
using VariableSynchronization::on_read;

TEST_CASE("a save has the values of its moment, whatever is written while it is under way",
          "[strategy][checkpoint]") {
  const bool is_asynchronous = GENERATE(false, true);
  constexpr int kSteps = 12;
  const TemporaryDirectory directory;
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable weights(Tensor::zeros({100'000}), {.name = "w", .aggregation = mean});
  Variable count(Tensor::scalar(std::int64_t{0}),
                 {.name = "n", .synchronization = on_read, .aggregation = sum});
  optim::Momentum momentum({.learning_rate = 0.5, .momentum = 0.5});
  momentum.build({weights});
  Checkpoint checkpoint({{"weights", weights}, {"count", count}});
  checkpoint.add("momentum", momentum);
  std::vector<std::vector<float>> expected(kSteps + 1);
  {
    CheckpointManager manager(checkpoint, directory.path(),
                              {.max_to_keep = kSteps, .asynchronous = is_asynchronous});
    for (int step = 1; step <= kSteps; ++step) {
      strategy.run([&](ReplicaContext& ctx) {
        momentum.apply_gradients(
            {{Tensor::full({100'000}, float(ctx.replica_id_in_sync_group() + step)), weights}});
        count.assign_add(std::int64_t{1});
      });
      expected[static_cast<std::size_t>(step)] = weights.value().to_vector<float>();
      manager.save(step);
    }
    weights.assign(Tensor::zeros({100'000}));
    CHECK(manager.restore_latest() == kSteps);
    CHECK(weights.value().to_vector<float>() == expected.back());
  }
  for (int step = 1; step <= kSteps; ++step) {
    checkpoint.restore(directory / ("checkpoint-" + std::to_string(step) + ".safetensors"));
    CHECK(weights.value().to_vector<float>() == expected[static_cast<std::size_t>(step)]);
    CHECK(count.value().item<std::int64_t>() == 2 * step);
    for (const Tensor& component : strategy.local_results(weights))
      CHECK(component.to_vector<float>() == expected[static_cast<std::size_t>(step)]);
  }
}

}  // namespace lockstep::test
