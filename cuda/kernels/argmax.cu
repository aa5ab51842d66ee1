#include <algorithm>
#include <bit>
#include <cstdint>

#include "arithmetic/operators.hpp"
#include "cuda_kernels.hpp"
#include "device/temporary.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/reduce/reduce.cuh"

namespace lockstep::cuda {
namespace {

template <class V>
struct Candidate {
  V value;
  std::int32_t index;  // along the part of the axis, which is 1 MiB at most
};

template <class V>
__device__ Candidate<V> shuffle_down(Candidate<V> candidate, int offset) {
  return {__shfl_down_sync(~0u, candidate.value, offset), __shfl_down_sync(~0u, candidate.index, offset)};
}

/// The larger value, and the first of equals, so that the result does not depend on the order. The identity
/// comes with indices behind the axis.
struct Argmax {
  template <class T>
  static constexpr T identity() {
    return arithmetic::Max::identity<T>();
  }
  template <class V>
  static __device__ Candidate<V> apply(const Candidate<V>& a, const Candidate<V>& b) {
    if (arithmetic::is_larger(a.value, b.value)) return a;
    return arithmetic::is_larger(b.value, a.value) || b.index < a.index ? b : a;
  }
};

}  // namespace

template <class T>
struct Accumulation<Argmax, T> {
  using Type = Candidate<accumulator_of<arithmetic::Max, T>>;
  static __device__ Type of(T element, std::int64_t place) {
    return {Accumulation<arithmetic::Max, T>::of(element, place), static_cast<std::int32_t>(place)};
  }
};

/// The first of the largest at each position of the vectors, and the turn in which it was added.
template <class T>
struct ColumnAccumulator<Argmax, T> {
  using V = accumulator_of<arithmetic::Max, T>;
  V values[kPer16Bytes<T>];
  std::int32_t turns[kPer16Bytes<T>]{};
  std::int32_t num_turns = 0;

  __device__ ColumnAccumulator() {
#pragma unroll
    for (V& value : values) value = static_cast<V>(widen(Argmax::identity<T>()));
  }
  __device__ void add(uint4 bytes) {
    const Elements<T> vector = elements_of<T>(bytes);
#pragma unroll
    for (int j = 0; j < kPer16Bytes<T>; ++j) {
      const V value = static_cast<V>(widen(vector.elements[j]));
      const bool is_larger = arithmetic::is_larger(value, values[j]);
      values[j] = is_larger ? value : values[j];
      turns[j] = is_larger ? num_turns : turns[j];
    }
    ++num_turns;
  }
  __device__ void add(const uint4 (&batch)[kBatch<T>]) {
#pragma unroll
    for (const uint4& bytes : batch) add(bytes);
  }
  __device__ Candidate<V> total(int j, std::int64_t first, std::int64_t step) const {
    return {values[j], static_cast<std::int32_t>(first + turns[j] * step)};
  }
};

/// The first of the largest of all elements, and its number among those that were added.
template <class T>
struct RowAccumulator<Argmax, T> {
  using V = accumulator_of<arithmetic::Max, T>;
  Candidate<V> best{static_cast<V>(widen(Argmax::identity<T>())), 0};
  std::int32_t num_added = 0;

  __device__ void add(uint4 bytes) {
    const Elements<T> vector = elements_of<T>(bytes);
#pragma unroll
    for (int j = 0; j < kPer16Bytes<T>; ++j) {
      const V value = static_cast<V>(widen(vector.elements[j]));
      if (arithmetic::is_larger(value, best.value)) best = {value, num_added + j};
    }
    num_added += kPer16Bytes<T>;
  }
  __device__ void add(const uint4 (&batch)[kBatch<T>]) {
#pragma unroll
    for (const uint4& bytes : batch) add(bytes);
  }
  __device__ Candidate<V> total(std::int64_t first, std::int64_t step) const {
    const std::int64_t vector = first + best.index / kPer16Bytes<T> * step;
    return {best.value, static_cast<std::int32_t>(vector * kPer16Bytes<T> + best.index % kPer16Bytes<T>)};
  }
};

namespace {

template <class Op, class T, class V>
__device__ void store_result_of(const ReduceOutput& out, std::int64_t index, Candidate<V> candidate,
                                const ElementRun& run) {
  store_as<std::int64_t>(DType::i64, out.data, index, run.place + candidate.index);
}

/// Takes the best of each result's candidates, which lie in parts of the axis one after the other. Threads
/// side by side do adjacent results, and threads below one another share the parts.
template <class T>
__global__ void __launch_bounds__(kThreads)
    argmax_of_parts(void* out, const void* in, const std::int64_t* candidates, backend::AxisExtents extents,
                    std::int64_t parts, bool out_aligned, bool in_aligned) {
  using V = compute_t<T>;
  struct Best {
    V value;
    std::int64_t index;  // -1: none
  };
  __shared__ Best shared[kThreads];
  const int width = static_cast<int>(blockDim.x), height = static_cast<int>(blockDim.y);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const std::int64_t count = extents.outer * extents.inner;
  for (std::int64_t first = std::int64_t{blockIdx.x} * width; first < count;
       first += std::int64_t{gridDim.x} * width) {
    const std::int64_t i = first + x;
    const std::int64_t outer = i / extents.inner, column = i - outer * extents.inner;
    Best best{V(0), -1};
    // Parts in their order, so that the first of equals stays.
    const auto take = [&](const Best& other) {
      if (other.index >= 0 && (best.index < 0 || arithmetic::is_larger(other.value, best.value) ||
                               (!arithmetic::is_larger(best.value, other.value) && other.index < best.index)))
        best = other;
    };
    if (i < count) {
      for (std::int64_t part = y; part < parts; part += height) {
        const std::int64_t index = candidates[(outer * parts + part) * extents.inner + column];
        const std::int64_t element = (outer * extents.axis + index) * extents.inner + column;
        take({widen(load<T, 1>(in, element, in_aligned).elements[0]), index});
      }
    }
    shared[y * width + x] = best;
    __syncthreads();
    for (int half = height / 2; half > 0; half /= 2) {
      if (y < half) {
        take(shared[(y + half) * width + x]);
        shared[y * width + x] = best;
      }
      __syncthreads();
    }
    if (y == 0 && i < count) store<std::int64_t, 1>(out, i, {best.index}, out_aligned);
    __syncthreads();  // the next turn
  }
}

}  // namespace

void CudaKernels::argmax(const TensorView& out, const TensorView& in, const backend::AxisExtents& extents,
                         backend::StreamHandle stream) {
  const Place place = place_on(stream);
  dispatch_arithmetic("argmax", in, [&]<class T>() {
    // A part's candidate is written and read, and so is its element.
    constexpr std::int64_t kPerPart = 2 * sizeof(std::int64_t);
    const ReducePlan plan = plan_reduction(extents, sizeof(T), kPerPart, true);
    const auto run = [&](void* results) {
      launch_reduction<Argmax, T>(place, "argmax", {results, DType::i64, 1, false}, in.data, extents, plan);
    };
    if (plan.splits == 1) return run(out.data);
    const std::int64_t count = extents.outer * extents.inner;
    const Temporary candidates(place, count * plan.splits * static_cast<std::int64_t>(sizeof(std::int64_t)));
    run(candidates.data());
    const auto width =
        static_cast<unsigned>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(count, 32))));
    launch(place, "argmax",
           static_cast<unsigned>(std::min<std::int64_t>((count + width - 1) / width, 1 << 20)),
           dim3(width, kThreads / width), argmax_of_parts<T>, out.data, in.data,
           static_cast<const std::int64_t*>(candidates.data()), extents, plan.splits,
           are_multiples(sizeof(std::int64_t), out.data), are_multiples(sizeof(T), in.data));
  });
}

}  // namespace lockstep::cuda
