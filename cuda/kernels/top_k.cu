#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda_kernels.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/staged.cuh"
#include "kernels/staged_element.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kWarp = 32;

/// Each group of threads does a row of those that the block stages in shared memory; a row that is too long
/// is staged in parts.
/// @param group  a power of two up to a warp; the block for rows in parts.
template <class T>
__global__ void __launch_bounds__(kThreads)
    in_top_k_kernel(bool* out, ByteRange logits, const void* labels, std::int64_t rows, std::int64_t columns,
                    std::int64_t k, int group, int per_block, bool labels_aligned) {
  constexpr int kSize = sizeof(T);
  __shared__ uint4 staged[kStagedVectors];
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (group - 1), groups = kThreads / group;
  const int at_once = static_cast<int>(min(columns, std::int64_t{kStagedBytes / kSize}));
  for (std::int64_t first = std::int64_t{blockIdx.x} * per_block; first < rows;
       first += std::int64_t{gridDim.x} * per_block) {
    const int count = static_cast<int>(min(std::int64_t{per_block}, rows - first));
    for (int turn = 0; turn < count; turn += groups) {
      const int row = turn + thread / group;
      const std::int64_t label =
          row < count ? load<std::int64_t, 1>(labels, first + row, labels_aligned).elements[0] : -1;
      const bool is_class = label >= 0 && label < columns;
      long long num_greater = 0;
      compute_t<T> own{};
      for (std::int64_t done = 0; done < columns; done += at_once) {
        const int part = static_cast<int>(min(std::int64_t{at_once}, columns - done));
        const std::byte* const begin = logits.begin + (first * columns + done) * kSize;
        const int shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16);
        const bool aligned = shift % kSize == 0;
        if (turn == 0) {
          __syncthreads();  // all have read what was staged before
          stage_bytes<kThreads>(logits, begin, count * part * kSize, staged);
          __syncthreads();
        }
        const auto logit = [&](std::int64_t c) {
          return widen(
              load_staged_element<T>(staged, shift + static_cast<int>(row * columns + c) * kSize, aligned));
        };
        if (!is_class) continue;
        if (done == 0)
          own = columns == at_once
                    ? logit(label)
                    : widen(load<T, 1>(logits.begin, first * columns + label, aligned).elements[0]);
        for (int c = lane; c < part; c += group) num_greater += !(logit(c) <= own);
      }
      for (int offset = 1; offset < min(group, kWarp); offset *= 2)
        num_greater += __shfl_down_sync(~0u, num_greater, offset);
      if (group > kWarp) {
        __shared__ long long of_warps[kThreads / kWarp];
        if (thread % kWarp == 0) of_warps[thread / kWarp] = num_greater;
        __syncthreads();
        for (int warp = 1; warp < kThreads / kWarp && thread == 0; ++warp) num_greater += of_warps[warp];
      }
      if (lane == 0 && row < count) out[first + row] = is_class && own == own && num_greater < k;
    }
  }
}

}  // namespace

void CudaKernels::in_top_k(const TensorView& out, const TensorView& logits, const TensorView& labels,
                           std::int64_t k, backend::StreamHandle stream) {
  const Place place = place_on(stream);
  const std::int64_t rows = logits.shape[0];
  dispatch_arithmetic("in_top_k", logits, [&]<class T>() {
    const std::int64_t columns = logits.shape[1], row_bytes = columns * static_cast<std::int64_t>(sizeof(T));
    const bool in_parts = row_bytes > kStagedBytes;
    const std::int64_t group = in_parts ? kThreads : lanes_for(columns, 8);
    const std::int64_t per_block = in_parts ? 1 : rows_per_block(rows, row_bytes, kThreads / group);
    const auto* const begin = static_cast<const std::byte*>(logits.data);
    launch(place, "in_top_k",
           static_cast<unsigned>(std::min<std::int64_t>((rows + per_block - 1) / per_block, 1 << 20)),
           kThreads, in_top_k_kernel<T>, static_cast<bool*>(out.data),
           ByteRange{begin, begin + rows * row_bytes}, labels.data, rows, columns, k, static_cast<int>(group),
           static_cast<int>(per_block), are_multiples(sizeof(std::int64_t), labels.data));
  });
}

}  // namespace lockstep::cuda
