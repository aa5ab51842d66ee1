#include <atomic>
#include <string_view>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

#include "support/call_hook.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

namespace lockstep::test {

TEST_CASE("a strategy whose variable was written by halves refuses what follows", "[cuda]") {
  if (TestBackend::num_devices() < 2) SKIP("needs 2 devices");
  const bool is_scattered = GENERATE(false, true);
  Replicas strategy(2);
  Variable variable = strategy.make_variable(Tensor::ones({4, 2}), {.name = "rows"});
  const IndexedSlices rows{Tensor::ones({1, 2}), Tensor::from(std::vector<std::int64_t>{1}, {1}),
                           Shape{4, 2}};
  const auto write = [&] {
    is_scattered ? variable.scatter_add(rows) : variable.assign_add(Tensor::ones({4, 2}));
  };
  write();
  {
    std::atomic<int> num_launches{0};
    const CallHook hook([&](std::string_view name, bool is_over) {
      return name.starts_with("cudaLaunchKernel") && !is_over && num_launches++ == 1
                 ? cudaErrorLaunchOutOfResources
                 : cudaSuccess;
    });
    CHECK_THROWS_MATCHES(write(), DeviceError, says("cudaErrorLaunchOutOfResources"));
  }
  CHECK_THROWS_MATCHES(
      strategy.run([](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1)); }),
      CollectiveAborted,
      says(is_scattered ? "scatter_add" : "assign_add", "of the variable 'rows' has failed halfway"));
}

}  // namespace lockstep::test
