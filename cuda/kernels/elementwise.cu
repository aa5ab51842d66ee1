#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "arithmetic/operators.hpp"
#include "arithmetic/wide_quotient.hpp"
#include "cuda_kernels.hpp"
#include "device/temporary.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/split.cuh"
#include "kernels/staged.cuh"

namespace lockstep::cuda {
namespace {

using backend::BinaryOp;
using backend::UnaryOp;

// All threads do the same operation: a switch costs less than a kernel for each operation.
template <class C>
__device__ C apply(BinaryOp op, C a, C b) {
  switch (op) {
    case BinaryOp::add: return arithmetic::Sum::apply(a, b);
    case BinaryOp::subtract: return arithmetic::Difference::apply(a, b);
    case BinaryOp::multiply: return arithmetic::Product::apply(a, b);
    case BinaryOp::divide: return arithmetic::Quotient::apply(a, b);
    default: return arithmetic::ReluGradient::apply(a, b);
  }
}

template <class C>
__device__ C apply(UnaryOp op, C x) {
  if constexpr (!std::integral<C>) {
    switch (op) {
      case UnaryOp::exp: return exp(x);
      case UnaryOp::log: return log(x);
      case UnaryOp::sqrt: return sqrt(x);
      default: break;
    }
  }
  return op == UnaryOp::negate ? arithmetic::negated(x) : arithmetic::relu(x);
}

struct Operand {
  const void* data;
  bool is_one;  // a single element, which meets every element of the other
};

template <class T, int kCount>
__device__ Vector<T, kCount> load_operand(const Operand& operand, std::int64_t i, bool aligned) {
  if (!operand.is_one) return load<T, kCount>(operand.data, i, aligned);
  const T one = load<T, 1>(operand.data, 0, aligned).elements[0];
  Vector<T, kCount> result;
#pragma unroll
  for (int j = 0; j < kCount; ++j) result.elements[j] = one;
  return result;
}

template <class T>
__global__ void __launch_bounds__(kThreads) binary_kernel(BinaryOp op, void* out, Operand a, Operand b,
                                                          std::int64_t count, Split split, bool aligned) {
  for_each_vector<kPer16Bytes<T>>(count, split, [=](std::int64_t i, auto constant) {
    constexpr int kCount = decltype(constant)::value;
    auto x = load_operand<T, kCount>(a, i, aligned);
    const auto y = load_operand<T, kCount>(b, i, aligned);
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      x.elements[j] = narrow<T>(apply(op, widen(x.elements[j]), widen(y.elements[j])));
    store<T, kCount>(out, i, x, aligned);
  });
}

/// Flags of vectors that do not begin at multiples of their size go through shared memory.
template <class T>
__global__ void __launch_bounds__(kThreads)
    equal_kernel(bool* out, Operand a, Operand b, std::int64_t count, Split split, bool aligned) {
  constexpr int kWhole = kPer16Bytes<T>;
  const auto compare = [=](std::int64_t i, auto constant) {
    constexpr int kCount = decltype(constant)::value;
    const auto x = load_operand<T, kCount>(a, i, aligned);
    const auto y = load_operand<T, kCount>(b, i, aligned);
    Vector<bool, kCount> result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) result.elements[j] = widen(x.elements[j]) == widen(y.elements[j]);
    return result;
  };
  const auto write = [=](std::int64_t i, auto constant) {
    store<bool, decltype(constant)::value>(out, i, compare(i, constant), true);
  };
  if (reinterpret_cast<std::uintptr_t>(out) % kWhole == 0)
    return for_each_vector<kWhole>(count, split, write);

  __shared__ uint4 staged[kThreads * kWhole / 16];
  for (std::int64_t first = std::int64_t{blockIdx.x} * kThreads; first < split.num_vectors;
       first += num_threads()) {
    const int vectors = static_cast<int>(min(std::int64_t{kThreads}, split.num_vectors - first));
    if (const int v = static_cast<int>(threadIdx.x); v < vectors)
      store<bool, kWhole>(staged, v * kWhole,
                          compare((first + v) * kWhole, std::integral_constant<int, kWhole>()), true);
    __syncthreads();
    store_staged<kThreads>(reinterpret_cast<std::byte*>(out) + first * kWhole, vectors * kWhole, staged, 0);
    __syncthreads();  // before the next flags
  }
  for_each_single<kWhole>(count, split, write);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    unary_kernel(UnaryOp op, void* out, const void* in, std::int64_t count, Split split, bool aligned) {
  for_each_vector<kPer16Bytes<T>>(count, split, [=](std::int64_t i, auto constant) {
    constexpr int kCount = decltype(constant)::value;
    auto x = load<T, kCount>(in, i, aligned);
#pragma unroll
    for (int j = 0; j < kCount; ++j) x.elements[j] = narrow<T>(apply(op, widen(x.elements[j])));
    store<T, kCount>(out, i, x, aligned);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    divide_kernel(void* out, const void* in, double divisor, std::int64_t count, Split split, bool aligned) {
  for_each_vector<kPer16Bytes<T>>(count, split, [=](std::int64_t i, auto constant) {
    constexpr int kCount = decltype(constant)::value;
    auto x = load<T, kCount>(in, i, aligned);
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      x.elements[j] = narrow<T>(arithmetic::over(widen(x.elements[j]), divisor));
    store<T, kCount>(out, i, x, aligned);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    divide_wide_sum_kernel(void* out, const void* wrapped, const void* rough, double divisor,
                           std::int64_t count, bool aligned) {
  for (std::int64_t i = thread_index(); i < count; i += num_threads()) {
    const T sum = load<T, 1>(wrapped, i, aligned).elements[0];
    const double rough_sum = load<double, 1>(rough, i, aligned).elements[0];
    store<double, 1>(out, i, {arithmetic::wide_quotient(sum, rough_sum, divisor)}, aligned);
  }
}

/// Each block does a tile of columns of some rows, each warp a row at a time. A pair of vectors, which fills
/// a sector of memory, belongs to the row that it begins in; at its end there may be the next row's elements.
/// @param row    of `period` columns, which repeats in each of the rows.
/// @param split  of `out` and `a`, which begin at its first vector.
template <class T>
__global__ void __launch_bounds__(kThreads, 6)
    add_row_kernel(void* out, const void* a, const void* row, std::int64_t rows, std::int64_t columns,
                   std::int64_t period, std::int64_t count, Split split, bool aligned) {
  constexpr int kWarp = 32, kWarps = kThreads / kWarp;
  constexpr int kWhole = kPer16Bytes<T>, kTile = kWarp * kWhole, kPair = 2 * kWhole;
  __shared__ Vector<T, kWhole> shared[(kTile + kPair) / kWhole];
  T* const tile = shared[0].elements;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto sum = [](T x, T y) { return narrow<T>(apply(BinaryOp::add, widen(x), widen(y))); };
  const auto add_one = [&](std::int64_t i, T y) {
    store<T, 1>(out, i, {sum(load<T, 1>(a, i, aligned).elements[0], y)}, aligned);
  };

  for (std::int64_t first = std::int64_t{blockIdx.x} * kTile; first < columns;
       first += std::int64_t{gridDim.x} * kTile) {
    for (int j = static_cast<int>(threadIdx.x); j < kTile + kPair && first + j < columns + kPair;
         j += kThreads) {
      const std::int64_t column = first + j;
      tile[j] = load<T, 1>(row, column < period ? column : column % period, aligned).elements[0];
    }
    __syncthreads();
#pragma unroll 1
    for (std::int64_t r = std::int64_t{blockIdx.y} * kWarps + warp; r < rows;
         r += std::int64_t{gridDim.y} * kWarps) {
      const std::int64_t begin = r * columns - split.head;
      if (split.num_vectors == 0) {
        for (int j = lane; j < kTile && first + j < columns && begin + first + j < count - split.head;
             j += kWarp)
          add_one(begin + first + j, tile[j]);
        continue;
      }
      const int skipped = static_cast<int>(-begin & (kPair - 1));  // elements of the pair before
      const std::int64_t i = begin + skipped + first + lane * kWhole;
      const std::int64_t of_pair = skipped + first + (lane & ~1) * kWhole;
      if (of_pair >= columns || i >= split.num_vectors * kWhole) continue;
      auto x = load<T, kWhole>(a, i, true);
      const int c = skipped + lane * kWhole;
      if (skipped == 0) {
        const auto y = shared[lane];
#pragma unroll
        for (int j = 0; j < kWhole; ++j) x.elements[j] = sum(x.elements[j], y.elements[j]);
      } else {
#pragma unroll
        for (int j = 0; j < kWhole; ++j) x.elements[j] = sum(x.elements[j], tile[c + j]);
      }
      // In one instruction, which the compiler does not find by itself.
      __stwb(reinterpret_cast<uint4*>(static_cast<T*>(out) + i), std::bit_cast<uint4>(x));
    }
    __syncthreads();  // before the next tile
  }
  // What lies before and behind all vectors.
  if (blockIdx.y == 0 && split.num_vectors > 0)
    for_each_single<kWhole>(count, split, [&](std::int64_t i, auto) {
      add_one(i, load<T, 1>(row, (i + split.head) % period, aligned).elements[0]);
    });
}

/// The address to read an operand from. A single element that lies in `out` is copied to `copy` first.
const void* apart(const Place& place, const TensorView& operand, const TensorView& out, Temporary& copy) {
  const auto* const begin = static_cast<const std::byte*>(out.data);
  const auto* const data = static_cast<const std::byte*>(operand.data);
  if (operand.size() != 1 || out.size() == 1 || data < begin || data >= begin + out.nbytes()) return data;
  const std::size_t size = size_of(operand.dtype);
  copy = Temporary(place, static_cast<std::int64_t>(size));
  const DeviceGuard guard(place.ordinal, place.device);
  LOCKSTEP_CUDA_CHECK(cudaMemcpyAsync(copy.data(), data, size, cudaMemcpyDeviceToDevice, place.stream),
                      place.device, "Moving an operand out of its result");
  return copy.data();
}

}  // namespace

void CudaKernels::binary(BinaryOp op, const TensorView& out, const TensorView& a, const TensorView& b,
                         backend::StreamHandle stream) {
  const Place place = place_on(stream);
  const std::int64_t count = out.size();
  const auto run = [&]<class T>() {
    Temporary a_copy, b_copy;
    Operand left{apart(place, a, out, a_copy), a.size() == 1 && count != 1};
    Operand right{apart(place, b, out, b_copy), b.size() == 1 && count != 1};
    // The address of a single element does not matter for vectors.
    const void* const left_run = left.is_one ? nullptr : left.data;
    const void* const right_run = right.is_one ? nullptr : right.data;
    const bool is_equal = op == BinaryOp::equal;  // its results are booleans
    const Split split = split_run<T>(count, is_equal ? nullptr : out.data, left_run, right_run);
    const bool aligned =
        are_multiples(sizeof(T), left.data, right.data) && (is_equal || are_multiples(sizeof(T), out.data));
    for (Operand* const operand : {&left, &right})
      if (!operand->is_one) operand->data = split.origin<T>(operand->data);
    if (is_equal)
      launch(place, name(op), split.blocks(count), kThreads, equal_kernel<T>,
             static_cast<bool*>(split.origin<bool>(out.data)), left, right, count, split, aligned);
    else if constexpr (!std::same_as<T, bool>)
      launch(place, name(op), split.blocks(count), kThreads, binary_kernel<T>, op, split.origin<T>(out.data),
             left, right, count, split, aligned);
  };
  if (op == BinaryOp::equal)
    dispatch(a.dtype, run);
  else
    dispatch_arithmetic(name(op), a, run);
}

void CudaKernels::unary(UnaryOp op, const TensorView& out, const TensorView& in,
                        backend::StreamHandle stream) {
  const Place place = place_on(stream);
  const auto run = [&]<class T>() {
    const Split split = split_run<T>(in.size(), out.data, in.data);
    launch(place, name(op), split.blocks(in.size()), kThreads, unary_kernel<T>, op, split.origin<T>(out.data),
           split.origin<T>(in.data), in.size(), split, are_multiples(sizeof(T), out.data, in.data));
  };
  if (op == UnaryOp::negate || op == UnaryOp::relu)
    dispatch_arithmetic(name(op), in, run);
  else
    dispatch_floating(name(op), in, run);
}

void CudaKernels::divide(const TensorView& out, const TensorView& in, double divisor,
                         backend::StreamHandle stream) {
  const Place place = place_on(stream);
  dispatch_arithmetic("divide", in, [&]<class T>() {
    const Split split = split_run<T>(in.size(), out.data, in.data);
    launch(place, "divide", split.blocks(in.size()), kThreads, divide_kernel<T>, split.origin<T>(out.data),
           split.origin<T>(in.data), divisor, in.size(), split, are_multiples(sizeof(T), out.data, in.data));
  });
}

void CudaKernels::divide_wide_sum(const TensorView& out, const TensorView& wrapped, const TensorView& rough,
                                  double divisor, backend::StreamHandle stream) {
  const Place place = place_on(stream);
  const auto kernel = wrapped.dtype == DType::i64 ? divide_wide_sum_kernel<std::int64_t>
                                                  : divide_wide_sum_kernel<std::uint64_t>;
  launch(place, "divide", blocks_for(out.size()), kThreads, kernel, out.data, wrapped.data, rough.data,
         divisor, out.size(), are_multiples(sizeof(double), out.data, wrapped.data, rough.data));
}

void CudaKernels::add_row(const TensorView& out, const TensorView& a, const TensorView& b,
                          backend::StreamHandle stream) {
  const Place place = place_on(stream);
  dispatch_arithmetic("add_row", a, [&]<class T>() {
    constexpr std::int64_t kTile = 32 * kPer16Bytes<T>;
    // Short rows are taken several at once.
    const std::int64_t columns = b.size() * std::max<std::int64_t>(1, kTile / b.size());
    const std::int64_t rows = (a.size() + columns - 1) / columns, tiles = (columns + kTile - 1) / kTile;
    // The row is read again for so many rows, fewer where blocks would be few.
    const std::int64_t per_block = rows * tiles >= 128 * 1024 ? 128 : 32;
    const Split split = split_run<T>(a.size(), out.data, a.data);
    const dim3 blocks(
        static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 30)),
        static_cast<unsigned>(std::min<std::int64_t>((rows + per_block - 1) / per_block, 65535)));
    launch(place, "add_row", blocks, kThreads, add_row_kernel<T>, split.origin<T>(out.data),
           split.origin<T>(a.data), b.data, rows, columns, b.size(), a.size(), split,
           are_multiples(sizeof(T), out.data, a.data, b.data));
  });
}

}  // namespace lockstep::cuda
