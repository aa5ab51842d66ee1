#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <lockstep/detail/saturate_cast.hpp>
#include <lockstep/dtype.hpp>

#include "arithmetic/scaled_sum.hpp"
#include "arithmetic/wide_quotient.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/reduce/accumulate.cuh"
#include "kernels/reduce/plan.hpp"

namespace lockstep::cuda {

/// The results' array: they are divided by `divisor` and written as `dtype`.
struct ReduceOutput {
  void* data;
  DType dtype;
  double divisor;
  bool aligned;  ///< `data` is a multiple of 16 bytes.
};

/// The work of a kernel: it reduces each of `plan.splits` parts of the axis to results of its own.
struct ReduceWork {
  backend::AxisExtents extents;
  ReducePlan plan;
  std::int64_t num_groups;  ///< The number of groups of threads that the work takes.
};

// ---- Writing ----

template <class To, class From>
__device__ void store_converted(void* data, std::int64_t index, From value) {
  To converted;
  if constexpr (std::same_as<compute_t<To>, From>)
    converted = narrow<To>(value);
  else
    converted = detail::saturate_cast<To>(value);
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % sizeof(To) == 0;
  store<To, 1>(data, index, {converted}, aligned);
}

template <class A>
__device__ void store_as(DType dtype, void* data, std::int64_t index, A value) {
  switch (dtype) {
    case DType::f32: return store_converted<float>(data, index, value);
    case DType::f64: return store_converted<double>(data, index, value);
    default: break;
  }
  if constexpr (std::same_as<A, float>) {
    switch (dtype) {
      case DType::f16: return store_converted<f16>(data, index, value);
      case DType::bf16: return store_converted<bf16>(data, index, value);
      case DType::f8e4m3: return store_converted<f8e4m3>(data, index, value);
      case DType::f8e5m2: return store_converted<f8e5m2>(data, index, value);
      default: break;
    }
  } else {
    switch (dtype) {
      case DType::i8: return store_converted<std::int8_t>(data, index, value);
      case DType::i16: return store_converted<std::int16_t>(data, index, value);
      case DType::i32: return store_converted<std::int32_t>(data, index, value);
      case DType::i64: return store_converted<std::int64_t>(data, index, value);
      case DType::u8: return store_converted<std::uint8_t>(data, index, value);
      case DType::u16: return store_converted<std::uint16_t>(data, index, value);
      case DType::u32: return store_converted<std::uint32_t>(data, index, value);
      case DType::u64: return store_converted<std::uint64_t>(data, index, value);
      default: break;
    }
  }
}

/// Not inlined: every kernel writes a few results, and there are many kernels.
template <class A>
__device__ __noinline__ void store_result(const ReduceOutput& out, std::int64_t index, A value) {
  if (out.divisor == 1)
    store_as(out.dtype, out.data, index, value);
  else if constexpr (std::integral<A>)
    store_as(out.dtype, out.data, index, arithmetic::wide_quotient(value, out.divisor));
  else if (std::same_as<A, float> && out.dtype == DType::f64)
    store_as(out.dtype, out.data, index, static_cast<double>(value) / out.divisor);
  else
    store_as(out.dtype, out.data, index, value / static_cast<A>(out.divisor));
}

/// The elements of one result, at a distance of `stride` bytes.
struct ElementRun {
  const std::byte* begin;
  std::int64_t stride;
  std::int64_t size;
};

/// The quotient of a sum that is not finite, from its elements. One thread does it: overflow is rare, and a
/// run is a part of an axis at most.
template <class T>
__device__ __noinline__ double quotient_of_large(const ElementRun& run, double divisor) {
  arithmetic::ScaledSum<double> sum(0x1p63);
  for (std::int64_t i = 0; i < run.size; ++i)
    sum.add(widen(load<T, 1>(run.begin + i * run.stride, 0, false).elements[0]));
  return sum.over(divisor);
}

/// Writes the result of the elements of `run`.
template <class Op, class T, class A>
__device__ void store_result_of(const ReduceOutput& out, std::int64_t index, A value, const ElementRun& run) {
  if constexpr (std::same_as<Op, arithmetic::Sum> && !std::integral<T> &&
                std::numeric_limits<T>::max_exponent >= 128) {
    if (!arithmetic::is_finite(value)) {
      const double quotient = quotient_of_large<T>(run, out.divisor);
      if (std::same_as<A, float> && out.dtype == DType::f64)
        return store_as(out.dtype, out.data, index, quotient);
      if (out.divisor != 1) return store_as(out.dtype, out.data, index, static_cast<A>(quotient));
    }
  }
  store_result(out, index, value);
}

/// Writes adjacent results. `run` has the elements of the first.
template <class Op, class T, class A>
__device__ void store_results(const ReduceOutput& out, std::int64_t index, const A (&values)[kPer16Bytes<T>],
                              int count, const ElementRun& run) {
  constexpr int kWhole = kPer16Bytes<T>;
  if (out.dtype == dtype_of<T> && out.divisor == 1 && out.aligned && count == kWhole && index % kWhole == 0) {
    Elements<T> results;
#pragma unroll
    for (int j = 0; j < kWhole; ++j) results.elements[j] = narrow<T>(static_cast<compute_t<T>>(values[j]));
    store<T, kWhole>(out.data, index, results, true);
    return;
  }
#pragma unroll
  for (int j = 0; j < kWhole; ++j)
    if (j < count)
      store_result_of<Op, T>(out, index + j, values[j], {run.begin + j * sizeof(T), run.stride, run.size});
}

// ---- Kernels ----

/// A part of the axis.
struct Part {
  std::int64_t begin;
  std::int64_t length;
};

inline __device__ Part part_of(const ReduceWork& work, std::int64_t split) {
  const std::int64_t begin = split * work.plan.split_length;
  return {begin, std::min(work.plan.split_length, work.extents.axis - begin)};
}

/// `length` adjacent elements as vectors.
template <class T>
__device__ VectorRun linear_run(const std::byte* begin, std::int64_t length) {
  constexpr int kWhole = kPer16Bytes<T>;
  const std::int64_t size = (length + kWhole - 1) / kWhole;
  return {begin, 16, size, kWhole, static_cast<int>(length - (size - 1) * kWhole)};
}

/// Combines the values of `group` threads; the group's first thread gets the result. @pre `group` is a power
/// of two.
template <class Op, class A>
__device__ A combine_group(A value, int group) {
  constexpr int kWarp = 32;
  for (int offset = 1; offset < min(group, kWarp); offset *= 2)
    value = Op::apply(value, __shfl_down_sync(~0u, value, offset));
  if (group > kWarp) {
    __shared__ A of_warps[kThreads / kWarp];
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < kThreads / kWarp; ++warp) value = Op::apply(value, of_warps[warp]);
    }
    __syncthreads();
  }
  return value;
}

/// Each group of threads reduces one part of a row.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads)
    reduce_rows(ReduceInput in, ReduceOutput out, __grid_constant__ const ReduceWork work) {
  const int group = work.plan.group;
  const int lane = threadIdx.x & (group - 1);
  const std::int64_t step = std::int64_t{gridDim.x} * work.plan.groups_per_block;
  // All threads of a block take the same number of turns.
  for (std::int64_t first = std::int64_t{blockIdx.x} * work.plan.groups_per_block; first < work.num_groups;
       first += step) {
    const std::int64_t number = first + (threadIdx.x >> (__ffs(group) - 1));
    RowAccumulator<Op, T> accumulator;
    ElementRun run{};
    if (number < work.num_groups) {
      const std::int64_t outer = work.plan.splits == 1 ? number : number / work.plan.splits;
      const Part part = part_of(work, number - outer * work.plan.splits);
      const std::int64_t begin = outer * work.extents.axis + part.begin;
      run = {in.begin + begin * static_cast<std::int64_t>(sizeof(T)), sizeof(T), part.length};
      accumulate<Op, T>(accumulator, in, linear_run<T>(run.begin, run.size), lane, group);
    }
    const auto value = combine_group<Op>(accumulator.value, group);
    if (lane == 0 && number < work.num_groups) store_result_of<Op, T>(out, number, value, run);
  }
}

/// Combines `rows` rows of `width` values in shared memory into the first row.
template <class Op, class A>
__device__ void combine_rows(A* values, int rows, int width, int thread, int num_threads) {
  __syncthreads();
  while (rows > 1) {
    const int half = (rows + 1) / 2;
    for (int i = thread; i < (rows - half) * width; i += num_threads)
      values[i] = Op::apply(values[i], values[i + half * width]);
    __syncthreads();
    rows = half;
  }
}

/// Reduces columns and slabs. Threads whose vectors hold the same columns combine their values in shared
/// memory.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads)
    reduce_columns(ReduceInput in, ReduceOutput out, __grid_constant__ const ReduceWork work) {
  using A = accumulator_of<Op, T>;
  constexpr int kWhole = kPer16Bytes<T>;
  __shared__ A shared[kThreads * kWhole];
  const auto [outer, axis, inner] = work.extents;
  const ReducePlan& plan = work.plan;
  const bool is_columns = plan.kind == ReducePlan::Kind::columns;
  const int thread = static_cast<int>(threadIdx.x) % plan.group;
  const int group = static_cast<int>(threadIdx.x) / plan.group;
  A* const values = shared + group * plan.group * kWhole;
  const auto address = [&](std::int64_t row, std::int64_t column) {
    return in.begin + (row * inner + column) * static_cast<std::int64_t>(sizeof(T));
  };

  const std::int64_t step = std::int64_t{gridDim.x} * plan.groups_per_block;
  for (std::int64_t first = std::int64_t{blockIdx.x} * plan.groups_per_block; first < work.num_groups;
       first += step) {
    const std::int64_t number = first + group;
    ColumnAccumulator<Op, T> accumulator;
    std::int64_t result = 0;
    int num_results = 0;
    ElementRun run{nullptr, address(1, 0) - in.begin, 0};
    if (is_columns) {
      const std::int64_t per_row = (inner + kWhole - 1) / kWhole;
      const std::int64_t tiles = (outer * per_row + plan.width - 1) / plan.width;
      const std::int64_t split = number / tiles;
      const std::int64_t vector = (number - split * tiles) * plan.width + thread % plan.width;
      const std::int64_t o = vector / per_row;
      if (o < outer) {
        const std::int64_t column = (vector - o * per_row) * kWhole;
        const Part part = part_of(work, split);
        num_results = static_cast<int>(std::min<std::int64_t>(kWhole, inner - column));
        result = (o * plan.splits + split) * inner + column;
        run.begin = address(o * axis + part.begin, column);
        run.size = part.length;
        accumulate<Op, T>(accumulator, in, {run.begin, run.stride, run.size, num_results, num_results},
                          thread / plan.width, plan.group / plan.width);
      }
      if (plan.group == plan.width) {
        store_results<Op, T>(out, result, accumulator.values, num_results, run);
        continue;
      }
    } else if (number < work.num_groups) {
      const std::int64_t o = number / plan.splits;
      const Part part = part_of(work, number - o * plan.splits);
      num_results = static_cast<int>(inner);
      result = number * inner;
      run.begin = address(o * axis + part.begin, 0);
      run.size = part.length;
      accumulate<Op, T>(accumulator, in, linear_run<T>(run.begin, run.size * inner), thread, plan.group);
    }

#pragma unroll
    for (int j = 0; j < kWhole; ++j) values[thread * kWhole + j] = accumulator.values[j];
    const int width = is_columns ? plan.width * kWhole : static_cast<int>(inner);
    combine_rows<Op>(values, plan.group * kWhole / width, width, thread, plan.group);
    if (!is_columns) {
      for (int i = thread; i < num_results; i += plan.group)
        store_result_of<Op, T>(out, result + i, values[i],
                               {run.begin + i * static_cast<std::int64_t>(sizeof(T)), run.stride, run.size});
    } else if (thread < plan.width) {
#pragma unroll
      for (int j = 0; j < kWhole; ++j) accumulator.values[j] = values[thread * kWhole + j];
      store_results<Op, T>(out, result, accumulator.values, num_results, run);
    }
    __syncthreads();  // before the next turn writes
  }
}

}  // namespace lockstep::cuda
