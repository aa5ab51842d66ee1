#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cub/block/block_reduce.cuh>
#include <limits>

#include "cuda_kernels.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kRowThreads = 128;
/// The logits of a row that a thread keeps. It loads those of longer rows again.
constexpr int kKept = 8;
/// The blocks that a multiprocessor holds at least: as many as leave registers for the logits.
template <class T>
constexpr int kBlocks = sizeof(compute_t<T>) > 4 ? 6 : 10;

struct Largest {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return b > a ? b : a;
  }
};

/// Each block does one row. Exponentials are added in double, in an order that depends on the number of
/// columns only. `gradient` may be exactly `logits`, or null.
template <class T>
__global__ void __launch_bounds__(kRowThreads, kBlocks<T>)
    softmax_cross_entropy_kernel(void* loss, void* gradient, const void* logits, const void* labels,
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
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(rows, 1 << 16));
    launch(place, "softmax_cross_entropy", blocks, kRowThreads, softmax_cross_entropy_kernel<T>, loss.data,
           gradient.data, logits.data, labels.data, rows, logits.shape[1],
           are_multiples(sizeof(T), loss.data, gradient.data, logits.data),
           are_multiples(sizeof(std::int64_t), labels.data));
  });
}

}  // namespace lockstep::cuda
