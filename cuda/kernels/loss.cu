#include <cmath>
#include <cstdint>
#include <cub/block/block_reduce.cuh>

#include "cuda_kernels.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kRowThreads = 128;

struct Largest {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return b > a ? b : a;
  }
};

/// A block for each row. The sum of exponentials is taken in double, in an order that depends on the number
/// of columns only. `gradient` may be exactly `logits`, or null.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    softmax_cross_entropy_kernel(T* loss, T* gradient, const T* logits, const std::int64_t* labels,
                                 std::int64_t rows, std::int64_t columns) {
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
    const T* const x = logits + r * columns;
    C largest = widen(x[0]);
    for (std::int64_t c = threadIdx.x; c < columns; c += kRowThreads)
      largest = Largest()(largest, widen(x[c]));
    largest = ReduceLargest(storage.largest).Reduce(largest, Largest());
    if (threadIdx.x == 0) shared_largest = largest;
    __syncthreads();
    largest = shared_largest;

    // exp of differences to the largest cannot overflow.
    double sum = 0;
    for (std::int64_t c = threadIdx.x; c < columns; c += kRowThreads)
      sum += static_cast<double>(exp(widen(x[c]) - largest));
    sum = ReduceSum(storage.sum).Sum(sum);
    const std::int64_t label = labels[r];
    if (threadIdx.x == 0) {
      shared_sum = sum;
      loss[r] = narrow<T>(static_cast<C>(log(sum)) - (widen(x[label]) - largest));
    }
    __syncthreads();
    if (gradient != nullptr) {
      const C divisor = static_cast<C>(shared_sum);
      for (std::int64_t c = threadIdx.x; c < columns; c += kRowThreads) {
        const C share = exp(widen(x[c]) - largest) / divisor;
        gradient[r * columns + c] = narrow<T>(c == label ? share - 1 : share);
      }
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
    launch(place, "softmax_cross_entropy", blocks, kRowThreads, softmax_cross_entropy_kernel<T>,
           static_cast<T*>(loss.data), static_cast<T*>(gradient.data), static_cast<const T*>(logits.data),
           static_cast<const std::int64_t*>(labels.data), rows, logits.shape[1]);
  });
}

}  // namespace lockstep::cuda
