#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

namespace lockstep::test {

/// Whether the process has a context on a GPU. It asks the driver, which makes no context.
inline bool has_context(int ordinal) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  REQUIRE(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &function, 12000, cudaEnableDefault,
                                           &found) == cudaSuccess);
  unsigned flags = 0;
  int active = -1;
  REQUIRE(reinterpret_cast<int (*)(int, unsigned*, int*)>(function)(ordinal, &flags, &active) == 0);
  return active != 0;
}

}  // namespace lockstep::test
