#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/reduce/accumulate.cuh"
#include "kernels/reduce/plan.hpp"
#include "kernels/reduce/results.cuh"
#include "kernels/staged.cuh"
#include "kernels/staged_element.cuh"

namespace lockstep::cuda {

/// The work of a kernel: it reduces each of `plan.splits` parts of the axis to results of its own.
struct ReduceWork {
  backend::AxisExtents extents;
  ReducePlan plan;
  std::int64_t num_groups;  ///< The number of groups of threads that the work takes.
  std::int64_t per_row;     ///< tiles: their number in a row. columns: vectors in a row.
};

/// A part of the axis.
struct Part {
  std::int64_t begin;
  std::int64_t length;
};

inline __device__ Part part_of(const ReduceWork& work, std::int64_t split) {
  const std::int64_t begin = split * work.plan.split_length;
  return {begin, std::min(work.plan.split_length, work.extents.axis - begin)};
}

/// The value of the thread `offset` further in the warp.
template <class A>
__device__ A shuffle_down(A value, int offset) {
  return __shfl_down_sync(~0u, value, offset);
}

/// Combines the values of `group` threads of a warp, a power of two; the first of them gets the result. All
/// threads of the warp call it together.
template <class Op, class A>
__device__ A combine_lanes(A value, int group) {
  for (int offset = 1; offset < group; offset *= 2) value = Op::apply(value, shuffle_down(value, offset));
  return value;
}

/// The same of a warp's or a block's threads.
template <class Op, class A>
__device__ A combine_group(A value, int group) {
  constexpr int kWarp = 32;
  value = combine_lanes<Op>(value, kWarp);
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

/// Blocks of kThreads that a multiprocessor holds at least: they keep enough loads in flight.
constexpr int kResident = 4;

/// Reduces [axis, inner] that are small. A block loads some that lie one after the other to shared memory,
/// and each group of its threads combines the elements of one result.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads, kResident)
    reduce_staged(ReduceInput in, ReduceOutput out, __grid_constant__ const ReduceWork work) {
  using A = accumulator_of<Op, T>;
  constexpr int kUnroll = sizeof(T) == 8 ? 1 : 2;
  __shared__ uint4 staged[kStagedVectors];
  const int axis = static_cast<int>(work.extents.axis), inner = static_cast<int>(work.extents.inner);
  const int size = axis * inner * static_cast<int>(sizeof(T));
  const int group = work.plan.group, groups = kThreads / group;
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (group - 1);

  const std::int64_t per_block = work.plan.groups_per_block;
  for (std::int64_t first = blockIdx.x * per_block; first < work.num_groups; first += gridDim.x * per_block) {
    const int count = static_cast<int>(std::min(per_block, work.num_groups - first));
    const std::byte* const begin = in.bytes.begin + first * size;
    const int shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16);
    stage_bytes<kThreads>(in.bytes, begin, count * size, staged);
    __syncthreads();

    const bool aligned = shift % sizeof(T) == 0;
    for (int turn = 0; turn < count * inner; turn += groups) {
      const int i = turn + thread / group;  // the result's number
      const int place = i / inner * axis * inner + i % inner;
      A value = Accumulation<Op, T>::of(Op::template identity<T>(), axis);
      if (i < count * inner) {
#pragma unroll kUnroll
        for (int k = lane; k < axis; k += group) {
          const T element = load_staged_element<T>(
              staged, shift + (place + k * inner) * static_cast<int>(sizeof(T)), aligned);
          value = Op::apply(value, Accumulation<Op, T>::of(element, k));
        }
      }
      value = combine_lanes<Op>(value, group);
      if (lane == 0 && i < count * inner)
        store_result_of<Op, T>(out, first * inner + i, value,
                               {begin + place * static_cast<int>(sizeof(T)),
                                static_cast<std::int64_t>(inner * sizeof(T)), axis, 0});
    }
    __syncthreads();  // the next ones
  }
}

/// Each group of threads reduces one part of a row.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads, kResident)
    reduce_rows(ReduceInput in, ReduceOutput out, __grid_constant__ const ReduceWork work) {
  __shared__ uint4 staged[(kStage * 32 + 1) * (kThreads / 32)];
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
      run = {in.bytes.begin + begin * static_cast<std::int64_t>(sizeof(T)), sizeof(T), part.length,
             part.begin};
    }
    const VectorRun<T> vectors(run.begin, run.size);
    if (in.aligned)
      accumulate_row<Op, T>(accumulator, in, vectors, lane, group);
    else
      accumulate_staged_row<Op, T>(accumulator, in, vectors, lane, group,
                                   staged + threadIdx.x / group * (kStage * group + 1));
    const auto value = combine_group<Op>(accumulator.total(lane, group), group);
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

/// Reduces tiles of columns: a block stages some rows of a tile at once in shared memory, whatever their
/// alignment, and threads below one another share them.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads, kResident)
    reduce_tiles(ReduceInput in, ReduceOutput out, __grid_constant__ const ReduceWork work) {
  using A = accumulator_of<Op, T>;
  constexpr int kSize = sizeof(T);
  constexpr int kColumns = kTileBytes / kSize > kThreads ? kTileBytes / kSize / kThreads : 1;  // of a thread
  constexpr int kUnroll = kColumns > 1 ? 1 : 2;
  __shared__ uint4 staged[kStagedVectors];
  __shared__ A values[kThreads * kColumns];
  const auto [outer, axis, inner] = work.extents;
  const int width = work.plan.width, height = work.plan.group;
  const int across = width < kThreads ? width : kThreads;
  const int thread = static_cast<int>(threadIdx.x), x = thread % across, y = thread / across;
  const bool is_whole = width == inner;  // a tile's rows lie one after the other
  const int pitch = is_whole ? 0 : (width * kSize + 30) / 16;
  const int most_rows = is_whole ? kStagedBytes / (width * kSize) : kStagedVectors / pitch;
  const std::int64_t stride = inner * kSize;
  const int skew = static_cast<int>(stride % 16);

  for (std::int64_t number = blockIdx.x; number < work.num_groups; number += gridDim.x) {
    const std::int64_t slab = number / work.per_row, first = (number - slab * work.per_row) * width;
    const std::int64_t o = slab / work.plan.splits;
    const Part part = part_of(work, slab - o * work.plan.splits);
    const int columns = static_cast<int>(std::min<std::int64_t>(width, inner - first));
    const std::byte* const origin = in.bytes.begin + (o * axis + part.begin) * stride + first * kSize;
    A totals[kColumns];
#pragma unroll
    for (A& total : totals) total = Accumulation<Op, T>::of(Op::template identity<T>(), part.length);

    const int length = static_cast<int>(part.length);  // of 1 MiB at most
    const std::byte* begin = origin;
    for (int done = 0; done < length; done += most_rows, begin += most_rows * stride) {
      const int shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16);
      const int rows = min(most_rows, length - done);
      if (is_whole) {
        stage_bytes<kThreads>(in.bytes, begin, rows * width * kSize, staged);
      } else {
#pragma unroll 1
        for (int i = thread; i < rows * pitch; i += kThreads) {
          const int r = i / pitch, at = (i - r * pitch) * 16 - (shift + r * skew) % 16;
          if (at < columns * kSize) staged[i] = load_whole(in.bytes, begin + r * stride + at);
        }
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kColumns; ++k) {
        const int column = x + k * kThreads;
        if (column >= columns || y >= height) break;
#pragma unroll kUnroll
        for (int r = y; r < rows; r += height) {
          const int at = is_whole ? shift + (r * width + column) * kSize
                                  : r * pitch * 16 + (shift + r * skew) % 16 + column * kSize;
          const T element = load_staged_element<T>(staged, at, shift % kSize == 0);
          totals[k] = Op::apply(totals[k], Accumulation<Op, T>::of(element, done + r));
        }
      }
      __syncthreads();  // before the next rows are staged
    }

#pragma unroll
    for (int k = 0; k < kColumns; ++k)
      if (const int column = x + k * kThreads; column < width && y < height)
        values[y * width + column] = totals[k];
    combine_rows<Op>(values, height, width, thread, kThreads);
#pragma unroll 1
    for (int column = thread; column < columns; column += kThreads)
      store_result_of<Op, T>(out, slab * inner + first + column, values[column],
                             {origin + column * kSize, stride, part.length, part.begin});
    __syncthreads();  // before the next turn writes
  }
}

/// Reduces columns that are vectors wide: a thread goes down a vector's width of them, and threads below one
/// another combine their values in shared memory. Where the array begins at no multiple of 16 bytes, vectors
/// begin at columns before; a column's order is the same. There is a block for each group of threads.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads, kResident - (kMultipliesNarrow<Op, T> && sizeof(T) == 1 ? 1 : 0))
    reduce_columns(ReduceInput in, ReduceOutput out, __grid_constant__ const ReduceWork work) {
  using A = accumulator_of<Op, T>;
  constexpr int kWhole = kPer16Bytes<T>;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  __shared__ A values[kThreads * kWhole];
  const auto [outer, axis, inner] = work.extents;
  const ReducePlan& plan = work.plan;
  const int thread = static_cast<int>(threadIdx.x);
  const int below = plan.group / plan.width, x = thread % plan.width, y = thread / plan.width;
  const auto shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(in.bytes.begin) % 16);
  const bool of_elements = shift % kSize == 0;
  const std::int64_t before = of_elements ? shift / kSize : 0;  // columns of a row's first vector
  const bool in_vectors = shift == 0 && writes_vectors<Op, T>(out, inner);
  const std::int64_t tiles = (outer * work.per_row + plan.width - 1) / plan.width;
  const std::int64_t stride = inner * kSize;

  const std::int64_t split = blockIdx.x / tiles;
  const std::int64_t first = (blockIdx.x - split * tiles) * plan.width;  // vector
  const Part part = part_of(work, split);
  const auto run_of = [&](std::int64_t o, std::int64_t column) {
    return ElementRun{in.bytes.begin + (o * axis + part.begin) * stride + column * kSize, stride, part.length,
                      part.begin};
  };
  const auto index_of = [&](std::int64_t o, std::int64_t column) {
    return (o * plan.splits + split) * inner + column;
  };
  ColumnAccumulator<Op, T> accumulator;
  const std::int64_t own = (first + x) / work.per_row;
  const std::int64_t own_column = (first + x - own * work.per_row) * kWhole - before;
  const bool works = own < outer && y < below;
  if (works && y < part.length) {
    const std::byte* begin = run_of(own, own_column).begin + y * stride;
    const int count = static_cast<int>((part.length - y + below - 1) / below);
    if (shift == 0) {
      accumulate<Op, T>(accumulator, begin, below * stride, count);
    } else {
      for (int k = 0; k < count; ++k, begin += below * stride)
        accumulator.add(of_elements ? load_whole(in.bytes, begin) : load_edge(in.bytes, begin));
    }
  }
  A totals[kWhole];
#pragma unroll
  for (int j = 0; j < kWhole; ++j) totals[j] = accumulator.total(j, y, below);
  if (below > 1 || !in_vectors) {
    if (y < below) {
#pragma unroll
      for (int j = 0; j < kWhole; ++j) values[thread * kWhole + j] = totals[j];
    }
    combine_rows<Op>(values, below, plan.width * kWhole, thread, static_cast<int>(blockDim.x));
  }
  if (in_vectors) {
    if (below > 1 && y == 0) {
#pragma unroll
      for (int j = 0; j < kWhole; ++j) totals[j] = values[thread * kWhole + j];
    }
    if (works && y == 0) store_vector<Op, T>(out, index_of(own, own_column), totals, run_of(own, own_column));
  } else {
    for (int i = thread; i < plan.width * kWhole; i += static_cast<int>(blockDim.x)) {
      const std::int64_t vector = first + i / kWhole, o = vector / work.per_row;
      const std::int64_t column = (vector - o * work.per_row) * kWhole + i % kWhole - before;
      if (o < outer && column >= 0 && column < inner)
        store_result_of<Op, T>(out, index_of(o, column), values[i], run_of(o, column));
    }
  }
}

}  // namespace lockstep::cuda
