#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/transpose.hpp"

namespace lockstep::cuda {
namespace {

using lockstep::detail::Loops;

/// The edge of the tiles of a transposition, in elements.
template <class Bits>
constexpr int kEdge = sizeof(Bits) == 8 ? 32 : 64;

/// A copy whose neighbours in `out`, along its rows, are neighbours in `in` along its columns.
struct Transposition {
  std::int64_t batches, rows, columns;
  std::int64_t out_batch, out_row, in_batch, in_column;  ///< Strides in elements; the others are 1.
};

/// None where the loops are no such copy, or tiles would be nearly empty.
std::optional<Transposition> transposition_of(const Loops& loops) {
  int row = -1, column = -1;  // the axes
  for (int axis = 0; axis < loops.rank; ++axis) {
    if (loops.in[axis] == 1) row = axis;
    if (loops.out[axis] == 1) column = axis;
  }
  constexpr std::int64_t kLeast = 8;
  if (loops.rank > 3 || row < 0 || column < 0 || row == column || loops.extents[row] < kLeast ||
      loops.extents[column] < kLeast)
    return {};
  Transposition copy{1, loops.extents[row], loops.extents[column], 0, loops.out[row], 0, loops.in[column]};
  if (loops.rank == 3) {
    const int batch = 3 - row - column;
    copy.batches = loops.extents[batch];
    copy.out_batch = loops.out[batch];
    copy.in_batch = loops.in[batch];
  }
  return copy;
}

/// Calls `f(line, first, kUnit as a constant)` for the thread's units of elements of a tile, of which `lines`
/// have `length` elements, and `f(line, element, 1 as a constant)` where a line ends within a unit.
template <class Bits, int kUnit, class F>
__device__ __forceinline__ void for_each_unit(std::int64_t lines, std::int64_t length, F f) {
  constexpr int kAcross = kEdge<Bits> / kUnit, kDown = kThreads / kAcross;
  const int first = static_cast<int>(threadIdx.x) % kAcross * kUnit;
#pragma unroll
  for (int k = 0; k < kEdge<Bits> / kDown; ++k) {
    const int line = static_cast<int>(threadIdx.x) / kAcross + k * kDown;
    if (line >= lines) break;
    if (first + kUnit <= length)
      f(line, first, std::integral_constant<int, kUnit>());
    else
      for (int i = first; i < length; ++i) f(line, i, std::integral_constant<int, 1>());
  }
}
/// @param in_vectors  units of 16 bytes, else of one element.
template <class Bits, class F>
__device__ __forceinline__ void for_each_unit(std::int64_t lines, std::int64_t length, bool in_vectors, F f) {
  if (in_vectors)
    for_each_unit<Bits, kPer16Bytes<Bits>>(lines, length, f);
  else
    for_each_unit<Bits, 1>(lines, length, f);
}

/// Each block moves tiles, through shared memory, so that threads side by side load and store side by side.
/// @param out_in_vectors  all lines of tiles begin at multiples of 16 bytes in `out`.
template <class Bits>
__global__ void __launch_bounds__(kThreads)
    transpose_tiles(void* out, const void* in, Transposition copy, std::int64_t num_tiles, bool aligned,
                    bool out_in_vectors, bool in_in_vectors) {
  constexpr int kSide = kEdge<Bits>;
  __shared__ Bits tile[kSide][kSide + 1];
  const std::int64_t across = (copy.columns + kSide - 1) / kSide, down = (copy.rows + kSide - 1) / kSide;
  for (std::int64_t number = blockIdx.x; number < num_tiles; number += gridDim.x) {
    const std::int64_t batch = number / (across * down), in_batch = number % (across * down);
    const std::int64_t row = in_batch / across * kSide, column = in_batch % across * kSide;
    const std::int64_t from = batch * copy.in_batch + column * copy.in_column + row;
    const std::int64_t to = batch * copy.out_batch + row * copy.out_row + column;
    for_each_unit<Bits>(copy.columns - column, copy.rows - row, in_in_vectors, [&](int y, int x, auto unit) {
      constexpr int kUnit = decltype(unit)::value;
      const auto vector = load<Bits, kUnit>(in, from + y * copy.in_column + x, aligned);
#pragma unroll
      for (int j = 0; j < kUnit; ++j) tile[y][x + j] = vector.elements[j];
    });
    __syncthreads();
    for_each_unit<Bits>(copy.rows - row, copy.columns - column, out_in_vectors, [&](int y, int x, auto unit) {
      constexpr int kUnit = decltype(unit)::value;
      Vector<Bits, kUnit> vector;
#pragma unroll
      for (int j = 0; j < kUnit; ++j) vector.elements[j] = tile[x + j][y];
      const std::int64_t at = to + y * copy.out_row + x;
      if constexpr (kUnit > 1)  // in one instruction, which the compiler does not find by itself
        __stwb(reinterpret_cast<uint4*>(static_cast<Bits*>(out) + at), std::bit_cast<uint4>(vector));
      else
        store<Bits, 1>(out, at, vector, aligned);
    });
    __syncthreads();  // the next tile
  }
}

}  // namespace

bool transpose(const Place& place, const TensorView& out, const TensorView& in, const Loops& loops) {
  const auto copy = transposition_of(loops);
  if (!copy) return false;
  const std::size_t size = size_of(out.dtype);
  const auto in_vectors = [&](const void* data, std::int64_t batch, std::int64_t line) {
    const auto element = static_cast<std::int64_t>(size);
    return are_multiples(16, data) && batch * element % 16 == 0 && line * element % 16 == 0;
  };
  dispatch_size(size, [&]<class Bits>() {
    constexpr std::int64_t kSide = kEdge<Bits>;
    const std::int64_t tiles =
        copy->batches * ((copy->rows + kSide - 1) / kSide) * ((copy->columns + kSide - 1) / kSide);
    if constexpr (sizeof(Bits) <= 8)
      launch(place, "copy", blocks_for(tiles * kThreads), kThreads, transpose_tiles<Bits>, out.data, in.data,
             *copy, tiles, are_multiples(sizeof(Bits), out.data, in.data),
             in_vectors(out.data, copy->out_batch, copy->out_row),
             in_vectors(in.data, copy->in_batch, copy->in_column));
  });
  return true;
}

}  // namespace lockstep::cuda
