// A training that goes on without a GPU that is lost.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/checkpoint/checkpoint_manager.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/optim/momentum.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/call_hook.hpp"
#include "support/temporary_directory.hpp"

namespace lockstep::test {
namespace {

struct Training {
  explicit Training(const std::vector<Device>& devices) : strategy(devices) { momentum.build({weights}); }

  void step(std::int64_t k) {
    strategy.run([&](ReplicaContext& ctx) {
      const auto id = static_cast<float>(ctx.replica_id_in_sync_group() + 1);
      const Tensor target = Tensor::full({1000}, 0.37f * id / static_cast<float>(k + 3));
      momentum.apply_gradients({{weights.value() - target, weights}});
    });
  }
  std::vector<float> values() const { return weights.value().to_vector<float>(); }

  MirroredStrategy strategy;
  Variable weights = strategy.make_variable(Tensor::zeros({1000}));
  optim::Momentum momentum{{.learning_rate = 0.1, .momentum = 0.9}};
  Checkpoint checkpoint{{{"weights", weights}}};
};

}  // namespace

TEST_CASE("training goes on without a lost GPU as if it had not been there from the checkpoint on",
          "[cuda][.lost]") {  // what a lost GPU holds is never freed
  if (DeviceManager::instance().devices(DeviceKind::gpu).size() < 3) SKIP("needs three GPUs");
  constexpr int kLost = 1;
  const TemporaryDirectory directory;
  std::atomic<bool> is_lost = false;
  const CallHook hook([&](std::string_view name, bool is_over) {
    if (!is_lost || is_over || name == "cudaGetDevice" || name == "cudaSetDevice") return 0;
    int current = -1;
    cudaGetDevice(&current);
    return current == kLost ? int{cudaErrorECCUncorrectable} : 0;
  });
  {
    Training three({"GPU:0", "GPU:1", "GPU:2"});
    CheckpointManager manager(three.checkpoint, directory.path(), {.asynchronous = true});
    for (std::int64_t k = 0; k < 4; ++k) three.step(k);
    manager.save(4);
    three.step(4);
    // Between steps: the kernels of a collective that has begun wait for the lost GPU's part for ever.
    for (const Tensor& component : three.strategy.local_results(three.weights))
      static_cast<void>(component.to_vector<float>());
    is_lost = true;
    std::optional<Device> lost;
    try {
      three.step(5);
      static_cast<void>(three.values());
    } catch (const DeviceError& error) {
      CHECK(error.is_fatal());
      lost = Device(error.context().device);
    }
    REQUIRE(lost == Device(DeviceKind::gpu, kLost));
    manager.wait();
  }
  const auto train_on = [&] {
    Training two({"GPU:0", "GPU:2"});
    REQUIRE(CheckpointManager(two.checkpoint, directory.path()).restore_latest() == 4);
    for (std::int64_t k = 4; k < 10; ++k) two.step(k);
    return two.values();
  };
  const std::vector<float> after_loss = train_on();
  is_lost = false;
  CHECK(train_on() == after_loss);  // undisturbed
}

}  // namespace lockstep::test
