// Checkpoints of variables on GPUs pass through page-locked memory.
#include <atomic>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/checkpoint/checkpoint_manager.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/values/variable.hpp>

#include "support/call_hook.hpp"
#include "support/replica_values.hpp"
#include "support/temporary_directory.hpp"

namespace lockstep::test {

TEST_CASE("saves keep their page-locked memory, and restoring takes one piece of it", "[cuda][checkpoint]") {
  std::atomic<int> num_pinned = 0;
  const TemporaryDirectory directory;
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable a(Tensor::full({1000}, 1.0f)), b(Tensor::full({77, 3}, 2.0f)), none(Tensor::zeros({0}));
  Checkpoint checkpoint({{"a", a}, {"b", b}, {"none", none}});
  const CallHook hook([&](std::string_view name, bool is_over) {
    if (!is_over && name == "cudaHostAlloc") ++num_pinned;
    return 0;
  });
  {
    CheckpointManager manager(checkpoint, directory.path(), {.asynchronous = true});
    for (int step = 1; step <= 3; ++step) {
      a.assign(Tensor::full({1000}, static_cast<float>(step)));
      manager.save(step);
      a.assign(Tensor::full({1000}, -1.0f));
      manager.wait();
      CHECK(num_pinned == 1);
    }
    b.assign(Tensor::zeros({77, 3}));
    CHECK(manager.restore_latest() == 3);
    CHECK(num_pinned == 2);
  }
  for (const Tensor& component : strategy.local_results(a))
    CHECK(component.to_vector<float>() == std::vector<float>(1000, 3.0f));
  for (const Tensor& component : strategy.local_results(b))
    CHECK(component.to_vector<float>() == std::vector<float>(231, 2.0f));
}

}  // namespace lockstep::test
