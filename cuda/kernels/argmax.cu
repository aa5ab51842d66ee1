#include <algorithm>
#include <cstdint>
#include <cub/block/block_reduce.cuh>

#include "arithmetic/operators.hpp"
#include "cuda_kernels.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"

namespace lockstep::cuda {
namespace {

template <class C>
struct Candidate {
  C value;
  std::int64_t index;  // -1: none
};

/// The larger value, and the first of equals, so that the result does not depend on the order.
struct Better {
  template <class C>
  __device__ Candidate<C> operator()(const Candidate<C>& a, const Candidate<C>& b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    if (arithmetic::is_larger(a.value, b.value)) return a;
    return arithmetic::is_larger(b.value, a.value) || b.index < a.index ? b : a;
  }
};

/// Each thread makes one result; neighbours read neighbouring columns.
template <class T>
__global__ void __launch_bounds__(kThreads)
    argmax_columns(void* out, const void* in, backend::AxisExtents extents, bool out_aligned,
                   bool in_aligned) {
  const std::int64_t count = extents.outer * extents.inner;
  for (std::int64_t i = thread_index(); i < count; i += num_threads()) {
    const std::int64_t outer = i / extents.inner;
    const std::int64_t column = outer * extents.axis * extents.inner + i % extents.inner;
    const auto at = [=](std::int64_t k) {
      return widen(load<T, 1>(in, column + k * extents.inner, in_aligned).elements[0]);
    };
    Candidate<compute_t<T>> best{at(0), 0};
    for (std::int64_t k = 1; k < extents.axis; ++k) best = Better()(best, {at(k), k});
    store<std::int64_t, 1>(out, i, {best.index}, out_aligned);
  }
}

/// Each block reduces one row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    argmax_rows(void* out, const void* in, std::int64_t rows, std::int64_t columns, bool out_aligned,
                bool in_aligned) {
  using Reduce = cub::BlockReduce<Candidate<compute_t<T>>, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    Candidate<compute_t<T>> best{compute_t<T>(0), -1};
    for (std::int64_t c = threadIdx.x; c < columns; c += kThreads)
      best = Better()(best, {widen(load<T, 1>(in, r * columns + c, in_aligned).elements[0]), c});
    best = Reduce(storage).Reduce(best, Better());
    if (threadIdx.x == 0) store<std::int64_t, 1>(out, r, {best.index}, out_aligned);
    __syncthreads();  // the next row's storage
  }
}

}  // namespace

void CudaKernels::argmax(const TensorView& out, const TensorView& in, const backend::AxisExtents& extents,
                         backend::StreamHandle stream) {
  const Place place = place_on(stream);
  const bool out_aligned = are_multiples(sizeof(std::int64_t), out.data);
  // With fewer columns one thread is faster than a block, which has to synchronise.
  constexpr std::int64_t kShortRow = 64;
  dispatch_arithmetic("argmax", in, [&]<class T>() {
    const bool in_aligned = are_multiples(sizeof(T), in.data);
    if (extents.inner == 1 && extents.axis > kShortRow) {
      const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(extents.outer, 1 << 16));
      launch(place, "argmax", blocks, kThreads, argmax_rows<T>, out.data, in.data, extents.outer,
             extents.axis, out_aligned, in_aligned);
    } else {
      launch(place, "argmax", blocks_for(extents.outer * extents.inner), kThreads, argmax_columns<T>,
             out.data, in.data, extents, out_aligned, in_aligned);
    }
  });
}

}  // namespace lockstep::cuda
