#include <algorithm>
#include <array>
#include <vector>

#include "cuda_kernels.hpp"
#include "device/temporary.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/multi/table.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kPerThread = 16;  // vectors that are squared, so that there are few sums
constexpr int kWarp = 32;

/// The sum over the block, in thread 0. Always in the same order.
__device__ double sum_over_block(double value) {
  __shared__ double of_warps[kThreads / kWarp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) value += __shfl_down_sync(~0u, value, distance);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0)
    for (const double of_warp : of_warps) sum += of_warp;
  return sum;
}

/// sums[block] := the sum of the squares of the block's part.
template <class T>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(__grid_constant__ const Table table, double* sums) {
  const ArrayPart part = part_of_block(table);
  compute_t<T> sum = 0;
  for_each_vector<kPer16Bytes<T>>(part, [&](std::int64_t i, auto constant) {
    constexpr int kCount = decltype(constant)::value;
    const auto vector = load<T, kCount>(part.arrays[0], i, part.item.aligned);
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum += widen(vector.elements[j]) * widen(vector.elements[j]);
  });
  const double total = sum_over_block(static_cast<double>(sum));
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

/// One block.
__global__ void __launch_bounds__(kThreads)
    norm_kernel(double* norm, const double* sums, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  const double total = sum_over_block(sum);
  if (threadIdx.x == 0) *norm = sqrt(total);
}

/// An item's arrays are what is clipped, and the results.
template <class T>
__global__ void __launch_bounds__(kThreads)
    clip_kernel(__grid_constant__ const Table table, const double* norm, double clip_norm) {
  const double length = *norm;
  const double longer = max(length - clip_norm, 0.0) + clip_norm;
  const auto factor = static_cast<compute_t<T>>(clip_norm / longer + (length - length));
  const ArrayPart part = part_of_block(table);
  for_each_vector<kPer16Bytes<T>>(part, [&](std::int64_t i, auto constant) {
    constexpr int kCount = decltype(constant)::value;
    auto vector = load<T, kCount>(part.arrays[0], i, part.item.aligned);
#pragma unroll
    for (int j = 0; j < kCount; ++j) vector.elements[j] = narrow<T>(widen(vector.elements[j]) * factor);
    store<T, kCount>(part.arrays[1], i, vector, part.item.aligned);
  });
}

/// Calls `f.template operator()<T>(indices)` for each dtype of the views: the indices of those that it has,
/// and that have elements.
template <class F>
void for_each_dtype(const char* operation, std::span<const TensorView> views, const F& f) {
  std::vector<std::size_t> indices;
  for (int type = 0; type < kNumDTypes; ++type) {
    indices.clear();
    for (std::size_t k = 0; k < views.size(); ++k)
      if (views[k].dtype == static_cast<DType>(type) && views[k].size() > 0) indices.push_back(k);
    if (indices.empty()) continue;
    dispatch_floating(operation, views[indices.front()],
                      [&]<class T>() { f.template operator()<T>(indices); });
  }
}

}  // namespace

void CudaKernels::global_norm(const TensorView& norm, std::span<const TensorView> in,
                              backend::StreamHandle stream) {
  constexpr const char* kOperation = "global_norm";
  const Place place = place_on(stream);
  std::int64_t most_blocks = 1;  // where no element is in a vector
  for (const TensorView& view : in) most_blocks += view.size() / (kPerThread * kThreads) + 1;
  const Temporary sums(place, most_blocks * static_cast<std::int64_t>(sizeof(double)));
  std::int64_t num_sums = 0;
  for_each_dtype(kOperation, in, [&]<class T>(const std::vector<std::size_t>& indices) {
    const auto launch_squares = [&](const Table& table, unsigned blocks) {
      launch(place, kOperation, blocks, kThreads, squares_kernel<T>, table,
             static_cast<double*>(sums.data()) + num_sums);
      num_sums += blocks;
    };
    Tables tables(1, launch_squares, kPerThread);
    for (const std::size_t k : indices) {
      const void* const array = in[k].data;
      add_arrays<T>(tables, in[k].size(), {&array, 1});
    }
    tables.flush();
  });
  launch(place, kOperation, 1, kThreads, norm_kernel, static_cast<double*>(norm.data),
         static_cast<const double*>(sums.data()), num_sums);
}

void CudaKernels::clip(std::span<const TensorView> out, std::span<const TensorView> in,
                       const TensorView& norm, double clip_norm, backend::StreamHandle stream) {
  constexpr const char* kOperation = "clip_by_global_norm";
  const Place place = place_on(stream);
  for_each_dtype(kOperation, in, [&]<class T>(const std::vector<std::size_t>& indices) {
    Tables tables(2, [&](const Table& table, unsigned blocks) {
      launch(place, kOperation, blocks, kThreads, clip_kernel<T>, table,
             static_cast<const double*>(norm.data), clip_norm);
    });
    for (const std::size_t k : indices)
      add_arrays<T>(tables, in[k].size(), std::array<const void*, 2>{in[k].data, out[k].data});
    tables.flush();
  });
}

}  // namespace lockstep::cuda
