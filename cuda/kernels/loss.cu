#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cub/block/block_reduce.cuh>
#include <limits>

#include "cuda_kernels.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/staged.cuh"
#include "kernels/staged_element.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kRowThreads = 128;
/// The logits of a long row that a thread keeps. It loads those of longer rows again.
constexpr int kKept = 8;
/// The blocks that a multiprocessor holds at least: as many as leave registers for exponentials.
template <class T>
constexpr int kBlocks = sizeof(compute_t<T>) > 4 ? 6 : 10;

struct Largest {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return b > a ? b : a;
  }
};

struct Added {
  __device__ double operator()(double a, double b) const { return a + b; }
};

/// Combines the values of `group` threads, a power of two up to a warp or the block; all get the result.
template <class V, class F>
__device__ V combine_all(V value, int group, F combine) {
  constexpr int kWarp = 32;
  for (int offset = 1; offset < min(group, kWarp); offset *= 2)
    value = combine(value, __shfl_xor_sync(~0u, value, offset));
  if (group > kWarp) {
    __shared__ V of_warps[kRowThreads / kWarp];
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warps[0];
    for (int warp = 1; warp < kRowThreads / kWarp; ++warp) value = combine(value, of_warps[warp]);
    __syncthreads();
  }
  return value;
}

/// Each group of threads does a row of those that the block stages in shared memory, where the gradient takes
/// the logits' place. Exponentials are added in double, in an order that depends on the number of columns
/// only. `gradient` may be exactly `logits`, or null.
template <class T>
__global__ void __launch_bounds__(kRowThreads, kBlocks<T> - (sizeof(compute_t<T>) > 4 ? 0 : 2))
    softmax_of_staged_rows(std::byte* loss, std::byte* gradient, ByteRange logits, const void* labels,
                           std::int64_t rows, int columns, int group, int per_block, bool loss_aligned,
                           bool labels_aligned) {
  using C = compute_t<T>;
  __shared__ uint4 staged[kStagedVectors];
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (group - 1), groups = kRowThreads / group;
  const int row_bytes = columns * static_cast<int>(sizeof(T));
  for (std::int64_t first = std::int64_t{blockIdx.x} * per_block; first < rows;
       first += std::int64_t{gridDim.x} * per_block) {
    const int count = static_cast<int>(min(std::int64_t{per_block}, rows - first));
    const std::byte* const begin = logits.begin + first * row_bytes;
    // In place, other blocks write what lies beside these rows.
    const ByteRange own{begin, begin + count * row_bytes};
    stage_bytes<kRowThreads>(gradient == logits.begin ? own : logits, begin, count * row_bytes, staged);
    __syncthreads();
    const int shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16);
    const bool aligned = shift % sizeof(T) == 0;

    for (int turn = 0; turn < count; turn += groups) {
      const int row = turn + thread / group;
      const int end = row < count ? columns : 0;
      const auto logit = [&](int c) {
        return widen(load_staged_element<T>(staged, shift + (row * columns + c) * static_cast<int>(sizeof(T)),
                                            aligned));
      };
      const std::int64_t label =
          row < count ? load<std::int64_t, 1>(labels, first + row, labels_aligned).elements[0] : -1;
      const bool is_class = label >= 0 && label < columns;  // the host could not check it without waiting
      const C own_logit = is_class ? logit(static_cast<int>(label)) : C(0);

      C largest = -std::numeric_limits<C>::infinity();
      for (int c = lane; c < end; c += group) largest = Largest()(largest, logit(c));
      largest = combine_all(largest, group, Largest());
      // exp of a difference from the largest logit cannot overflow.
      double sum = 0;
      for (int c = lane; c < end; c += group) sum += static_cast<double>(exp(logit(c) - largest));
      sum = combine_all(sum, group, Added());
      if (lane == 0 && row < count) {
        const C value = is_class ? static_cast<C>(log(sum)) - (own_logit - largest) : static_cast<C>(NAN);
        store<T, 1>(loss, first + row, {narrow<T>(value)}, loss_aligned);
      }
      if (gradient == nullptr) continue;
      __syncwarp();  // all have read the label's logit
      const C divisor = static_cast<C>(sum);
      for (int c = lane; c < end; c += group) {
        const C share = is_class ? exp(logit(c) - largest) / divisor : static_cast<C>(NAN);
        store_staged_element(staged, shift + (row * columns + c) * static_cast<int>(sizeof(T)),
                             narrow<T>(c == label ? share - 1 : share), aligned);
      }
    }
    __syncthreads();
    if (gradient != nullptr)
      store_staged<kRowThreads>(gradient + first * row_bytes, count * row_bytes, staged, shift);
    __syncthreads();  // before the next rows are staged
  }
}

/// The same of rows that are too long for it, each by a block.
template <class T>
__global__ void __launch_bounds__(kRowThreads, kBlocks<T>)
    softmax_of_long_rows(void* loss, void* gradient, const void* logits, const void* labels,
                         std::int64_t rows, std::int64_t columns, bool aligned, bool labels_aligned) {
  using C = compute_t<T>;
  using ReduceLargest = cub::BlockReduce<C, kRowThreads>;
  using ReduceSum = cub::BlockReduce<double, kRowThreads>;
  __shared__ union {
    typename ReduceLargest::TempStorage largest;
    typename ReduceSum::TempStorage sum;
  } storage;
  __shared__ C shared_largest;
  __shared__ double shared_sum;

  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const auto logit = [=](std::int64_t c) {
      return widen(load<T, 1>(logits, r * columns + c, aligned).elements[0]);
    };
    C kept[kKept];
#pragma unroll
    for (int k = 0; k < kKept; ++k)
      if (const std::int64_t c = threadIdx.x + k * kRowThreads; c < columns) kept[k] = logit(c);
    // Calls f(c, logit(c)) for the thread's columns.
    const auto for_each_column = [&](auto f) {
#pragma unroll
      for (int k = 0; k < kKept; ++k)
        if (const std::int64_t c = threadIdx.x + k * kRowThreads; c < columns) f(c, kept[k]);
      for (std::int64_t c = threadIdx.x + kKept * kRowThreads; c < columns; c += kRowThreads) f(c, logit(c));
    };

    C largest = -std::numeric_limits<C>::infinity();
    for_each_column([&](std::int64_t, C value) { largest = Largest()(largest, value); });
    largest = ReduceLargest(storage.largest).Reduce(largest, Largest());
    if (threadIdx.x == 0) shared_largest = largest;
    __syncthreads();
    largest = shared_largest;

    // exp of a difference from the largest logit cannot overflow.
    double sum = 0;
    for_each_column([&](std::int64_t, C value) { sum += static_cast<double>(exp(value - largest)); });
    sum = ReduceSum(storage.sum).Sum(sum);
    const std::int64_t label = load<std::int64_t, 1>(labels, r, labels_aligned).elements[0];
    const bool is_class = label >= 0 && label < columns;  // the host could not check it without waiting
    if (threadIdx.x == 0) {
      shared_sum = sum;
      const C value = is_class ? static_cast<C>(log(sum)) - (logit(label) - largest) : static_cast<C>(NAN);
      store<T, 1>(loss, r, {narrow<T>(value)}, aligned);
    }
    __syncthreads();
    if (gradient != nullptr) {
      const C divisor = static_cast<C>(shared_sum);
      for_each_column([&](std::int64_t c, C value) {
        const C share = is_class ? exp(value - largest) / divisor : static_cast<C>(NAN);
        store<T, 1>(gradient, r * columns + c, {narrow<T>(c == label ? share - 1 : share)}, aligned);
      });
    }
    __syncthreads();  // the next row's storage
  }
}

}  // namespace

void CudaKernels::softmax_cross_entropy(const TensorView& loss, const TensorView& gradient,
                                        const TensorView& logits, const TensorView& labels,
                                        backend::StreamHandle stream) {
  const Place place = place_on(stream);
  const std::int64_t rows = logits.shape[0];
  dispatch_floating("softmax_cross_entropy", logits, [&]<class T>() {
    const std::int64_t columns = logits.shape[1];
    const auto size = static_cast<std::int64_t>(sizeof(T));
    const bool labels_aligned = are_multiples(sizeof(std::int64_t), labels.data);
    constexpr std::int64_t kMostBlocks = 1 << 20;
    if (columns * size > kStagedBytes)
      return launch(place, "softmax_cross_entropy", static_cast<unsigned>(std::min(rows, kMostBlocks)),
                    kRowThreads, softmax_of_long_rows<T>, loss.data, gradient.data, logits.data, labels.data,
                    rows, columns, are_multiples(sizeof(T), loss.data, gradient.data, logits.data),
                    labels_aligned);
    const auto* const begin = static_cast<const std::byte*>(logits.data);
    const std::int64_t group = columns > 1024 ? kRowThreads : lanes_for(columns, 4);
    const std::int64_t per_block = rows_per_block(rows, columns * size, kRowThreads / group);
    launch(place, "softmax_cross_entropy",
           static_cast<unsigned>(std::min((rows + per_block - 1) / per_block, kMostBlocks)), kRowThreads,
           softmax_of_staged_rows<T>, static_cast<std::byte*>(loss.data),
           static_cast<std::byte*>(gradient.data), ByteRange{begin, begin + rows * columns * size},
           labels.data, rows, static_cast<int>(columns), static_cast<int>(group), static_cast<int>(per_block),
           are_multiples(sizeof(T), loss.data), labels_aligned);
  });
}

}  // namespace lockstep::cuda
