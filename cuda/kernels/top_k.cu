#include <algorithm>
#include <cstdint>

#include "cuda_kernels.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kWarp = 32;

/// Each warp does one row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    in_top_k_kernel(bool* out, const void* logits, const void* labels, std::int64_t rows,
                    std::int64_t columns, std::int64_t k, bool aligned, bool labels_aligned) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t r = thread_index() / kWarp; r < rows; r += num_threads() / kWarp) {
    const auto logit = [=](std::int64_t c) {
      return widen(load<T, 1>(logits, r * columns + c, aligned).elements[0]);
    };
    const std::int64_t label = load<std::int64_t, 1>(labels, r, labels_aligned).elements[0];
    bool is_in = label >= 0 && label < columns;
    if (is_in) {
      const auto own = logit(label);
      long long num_greater = 0;
      for (std::int64_t c = lane; c < columns; c += kWarp) num_greater += !(logit(c) <= own);
      for (int offset = kWarp / 2; offset > 0; offset /= 2)
        num_greater += __shfl_down_sync(~0u, num_greater, offset);
      is_in = own == own && num_greater < k;
    }
    if (lane == 0) out[r] = is_in;
  }
}

}  // namespace

void CudaKernels::in_top_k(const TensorView& out, const TensorView& logits, const TensorView& labels,
                           std::int64_t k, backend::StreamHandle stream) {
  const Place place = place_on(stream);
  const std::int64_t rows = logits.shape[0];
  dispatch_arithmetic("in_top_k", logits, [&]<class T>() {
    launch(place, "in_top_k", blocks_for(rows * kWarp), kThreads, in_top_k_kernel<T>,
           static_cast<bool*>(out.data), logits.data, labels.data, rows, logits.shape[1], k,
           are_multiples(sizeof(T), logits.data), are_multiples(sizeof(std::int64_t), labels.data));
  });
}

}  // namespace lockstep::cuda
