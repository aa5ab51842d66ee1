#include <algorithm>
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

template <class T>
__global__ void __launch_bounds__(kThreads)
    equal_kernel(void* out, Operand a, Operand b, std::int64_t count, Split split, bool aligned) {
  for_each_vector<kPer16Bytes<T>>(count, split, [=](std::int64_t i, auto constant) {
    constexpr int kCount = decltype(constant)::value;
    const auto x = load_operand<T, kCount>(a, i, aligned);
    const auto y = load_operand<T, kCount>(b, i, aligned);
    Vector<bool, kCount> result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) result.elements[j] = widen(x.elements[j]) == widen(y.elements[j]);
    store<bool, kCount>(out, i, result, true);
  });
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

/// Threads go along a row by x, and from row to row by y.
template <class T, int kCount>
__global__ void __launch_bounds__(kThreads)
    add_row_kernel(void* out, const void* a, const void* row, std::int64_t rows, std::int64_t columns,
                   bool aligned) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kCount;
  for (std::int64_t c = first; c < columns; c += std::int64_t{gridDim.x} * blockDim.x * kCount) {
    const auto y = load<T, kCount>(row, c, aligned);
    for (std::int64_t r = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; r < rows;
         r += std::int64_t{gridDim.y} * blockDim.y) {
      auto x = load<T, kCount>(a, r * columns + c, aligned);
#pragma unroll
      for (int j = 0; j < kCount; ++j)
        x.elements[j] = narrow<T>(apply(BinaryOp::add, widen(x.elements[j]), widen(y.elements[j])));
      store<T, kCount>(out, r * columns + c, x, aligned);
    }
  }
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
    Split split = split_run<T>(count, is_equal ? nullptr : out.data, left_run, right_run);
    if (is_equal && !are_multiples(kPer16Bytes<T>, static_cast<const bool*>(out.data) + split.head))
      split = {};
    const bool aligned =
        are_multiples(sizeof(T), left.data, right.data) && (is_equal || are_multiples(sizeof(T), out.data));
    for (Operand* const operand : {&left, &right})
      if (!operand->is_one) operand->data = split.origin<T>(operand->data);
    if (is_equal)
      launch(place, name(op), split.blocks(count), kThreads, equal_kernel<T>, split.origin<bool>(out.data),
             left, right, count, split, aligned);
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
  const std::int64_t columns = b.size();
  const std::int64_t rows = a.size() / columns;
  dispatch_arithmetic("add_row", a, [&]<class T>() {
    const auto run = [&]<int kCount>() {
      const std::int64_t num_columns = (columns + kCount - 1) / kCount;
      unsigned width = 1;
      while (width < num_columns && width < kThreads) width *= 2;
      const unsigned height = kThreads / width;
      const auto blocks_x =
          static_cast<unsigned>(std::min<std::int64_t>((num_columns + width - 1) / width, 65535));
      const std::int64_t blocks_y = std::max<std::int64_t>(1, 2048 / blocks_x);
      const dim3 blocks(
          blocks_x, static_cast<unsigned>(std::min<std::int64_t>((rows + height - 1) / height, blocks_y)));
      launch(place, "add_row", blocks, dim3(width, height), add_row_kernel<T, kCount>, out.data, a.data,
             b.data, rows, columns, are_multiples(sizeof(T), out.data, a.data, b.data));
    };
    constexpr int kCount = kPer16Bytes<T>;
    if (columns % kCount == 0 && are_multiples(16, out.data, a.data, b.data))
      run.template operator()<kCount>();
    else
      run.template operator()<1>();
  });
}

}  // namespace lockstep::cuda
