#pragma once

#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <cuda_runtime_api.h>

#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "support/test_backend.hpp"

namespace lockstep::test {

/// Skips the test where there are not n GPUs.
inline void need_gpus(int n) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < n)
    SKIP("needs " << n << " GPUs, there are " << count);
}

/// A tensor on each of the first GPUs: rank + 1 everywhere.
struct Operands {
  Operands(int n, DType dtype = DType::f32) {
    for (int rank = 0; rank < n; ++rank) {
      const Device device = TestBackend::device(rank);
      owned.emplace_back(device);
      const StreamScope scope(owned.back());
      tensors.push_back(Tensor::full({7}, static_cast<float>(rank + 1), DType::f32, device).cast(dtype));
      views.push_back(tensors.back().view());
      streams.push_back(owned.back());
    }
    synchronize();
  }
  void synchronize() const {
    for (const StreamRef& stream : streams) stream.synchronize();
  }
  bool all_are(float value) {
    for (std::size_t rank = 0; rank < tensors.size(); ++rank) {
      const StreamScope scope(streams[rank]);
      if (tensors[rank].cast(DType::f32).to_vector<float>() != std::vector<float>(7, value)) return false;
    }
    return true;
  }
  std::vector<Stream> owned;
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  std::vector<StreamRef> streams;
};

}  // namespace lockstep::test
