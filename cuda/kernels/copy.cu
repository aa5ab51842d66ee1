#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <lockstep/detail/saturate_cast.hpp>

#include "cuda_kernels.hpp"
#include "detail/float_environment.hpp"
#include "detail/loops.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/split.cuh"

namespace lockstep::cuda {
namespace {

using lockstep::detail::Loops;
using lockstep::detail::saturate_cast;

/// The edge of the tiles of a transposition, in elements.
constexpr int kTile = 32;

struct Offsets {
  std::int64_t out, in;
};

/// The offsets, in elements, of the loops' i-th element on both sides.
__device__ Offsets offsets_of(const Loops& loops, std::int64_t i) {
  if (loops.rank == 1) return {i * loops.out[0], i * loops.in[0]};
  Offsets offsets{0, 0};
  for (int axis = loops.rank - 1; axis > 0; --axis) {
    const std::int64_t next = i / loops.extents[axis];
    const std::int64_t index = i - next * loops.extents[axis];
    offsets.out += index * loops.out[axis];
    offsets.in += index * loops.in[axis];
    i = next;
  }
  return {offsets.out + i * loops.out[0], offsets.in + i * loops.in[0]};
}

/// Moving elements needs only their size: calls f with the unsigned integer of that size.
template <class F>
void dispatch_size(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    default: return f.template operator()<std::uint64_t>();
  }
}

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    fill_run(void* out, Bits value, std::int64_t count, Split split, bool aligned) {
  for_each_vector<kPer16Bytes<Bits>>(count, split, [=](std::int64_t i, auto constant) {
    constexpr int kCount = decltype(constant)::value;
    Vector<Bits, kCount> vector;
#pragma unroll
    for (int j = 0; j < kCount; ++j) vector.elements[j] = value;
    store<Bits, kCount>(out, i, vector, aligned);
  });
}

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    fill_strided(void* out, Bits value, __grid_constant__ const Loops loops, std::int64_t count,
                 bool aligned) {
  for (std::int64_t i = thread_index(); i < count; i += num_threads())
    store<Bits, 1>(out, offsets_of(loops, i).out, {value}, aligned);
}

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    copy_strided(void* out, const void* in, __grid_constant__ const Loops loops, std::int64_t count,
                 bool aligned) {
  for (std::int64_t i = thread_index(); i < count; i += num_threads()) {
    const auto [to, from] = offsets_of(loops, i);
    store<Bits, 1>(out, to, load<Bits, 1>(in, from, aligned), aligned);
  }
}

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

/// Each block moves tiles, through shared memory, so that threads side by side load and store side by side.
template <class Bits>
__global__ void __launch_bounds__(kThreads)
    transpose_tiles(void* out, const void* in, Transposition copy, std::int64_t num_tiles, bool aligned) {
  __shared__ Bits tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  const std::int64_t across = (copy.columns + kTile - 1) / kTile, down = (copy.rows + kTile - 1) / kTile;
  for (std::int64_t number = blockIdx.x; number < num_tiles; number += gridDim.x) {
    const std::int64_t batch = number / (across * down), in_batch = number % (across * down);
    const std::int64_t row = in_batch / across * kTile, column = in_batch % across * kTile;
    for (int j = y; j < kTile; j += kThreads / kTile)
      if (row + x < copy.rows && column + j < copy.columns)
        tile[j][x] =
            load<Bits, 1>(in, batch * copy.in_batch + (column + j) * copy.in_column + row + x, aligned)
                .elements[0];
    __syncthreads();
    for (int j = y; j < kTile; j += kThreads / kTile)
      if (row + j < copy.rows && column + x < copy.columns)
        store<Bits, 1>(out, batch * copy.out_batch + (row + j) * copy.out_row + column + x, {tile[x][j]},
                       aligned);
    __syncthreads();  // the next tile
  }
}

/// Element i of an array of `dtype`, exactly; Wide is its accumulator type. The switch is the same for all
/// threads.
template <class Wide>
__device__ Wide read(const void* in, DType dtype, std::int64_t i, bool aligned) {
  const auto as = [&]<class T>(T) { return static_cast<Wide>(load<T, 1>(in, i, aligned).elements[0]); };
  if constexpr (std::same_as<Wide, float>) {
    switch (dtype) {
      case DType::f16: return as(f16());
      case DType::bf16: return as(bf16());
      case DType::f8e4m3: return as(f8e4m3());
      case DType::f8e5m2: return as(f8e5m2());
      default: return as(float());
    }
  } else if constexpr (std::same_as<Wide, double>) {
    return as(double());
  } else if constexpr (std::same_as<Wide, std::int64_t>) {
    switch (dtype) {
      case DType::i8: return as(std::int8_t());
      case DType::i16: return as(std::int16_t());
      case DType::i32: return as(std::int32_t());
      default: return as(std::int64_t());
    }
  } else {
    switch (dtype) {
      case DType::boolean: return as(bool());
      case DType::u8: return as(std::uint8_t());
      case DType::u16: return as(std::uint16_t());
      case DType::u32: return as(std::uint32_t());
      default: return as(std::uint64_t());
    }
  }
}

template <class Out, class Wide>
__global__ void __launch_bounds__(kThreads)
    convert_strided(void* out, const void* in, DType in_dtype, __grid_constant__ const Loops loops,
                    std::int64_t count, bool out_aligned, bool in_aligned) {
  for (std::int64_t i = thread_index(); i < count; i += num_threads()) {
    const auto [to, from] = offsets_of(loops, i);
    store<Out, 1>(out, to, {saturate_cast<Out>(read<Wide>(in, in_dtype, from, in_aligned))}, out_aligned);
  }
}

/// The conversions of mixed precision, and between float and double, by the hardware's instructions, kCount
/// elements at a time.
template <class Out, class In>
__global__ void __launch_bounds__(kThreads)
    convert_run(void* out, const void* in, std::int64_t count, std::int64_t num_vectors) {
  constexpr int kCount = static_cast<int>(16 / std::max(sizeof(Out), sizeof(In)));
  const auto convert = [](In value) {
    if constexpr (sizeof(In) < 4)
      return widen(value);
    else
      return narrow<Out>(static_cast<compute_t<Out>>(value));
  };
  for (std::int64_t v = thread_index(); v < num_vectors; v += num_threads()) {
    const auto vector = load<In, kCount>(in, v * kCount, true);
    Vector<Out, kCount> result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) result.elements[j] = convert(vector.elements[j]);
    store<Out, kCount>(out, v * kCount, result, true);
  }
  for (std::int64_t i = num_vectors * kCount + thread_index(); i < count; i += num_threads())
    store<Out, 1>(out, i, {convert(load<In, 1>(in, i, true).elements[0])}, true);
}

/// Converts by convert_run. @return false: it has no kernel for the types or the addresses.
bool converted_as_run(const Place& place, const TensorView& out, const TensorView& in) {
  if (!are_multiples(16, out.data, in.data)) return false;
  const auto run = [&]<class Out, class In>(Out, In) {
    constexpr std::int64_t kCount = 16 / std::max(sizeof(Out), sizeof(In));
    const std::int64_t vectors = in.size() / kCount;
    launch(place, "Converting", blocks_for(std::max<std::int64_t>(vectors, 1)), kThreads,
           convert_run<Out, In>, out.data, in.data, in.size(), vectors);
    return true;
  };
  if (in.dtype == DType::f32 && out.dtype == DType::f16) return run(f16(), float());
  if (in.dtype == DType::f32 && out.dtype == DType::bf16) return run(bf16(), float());
  if (in.dtype == DType::f16 && out.dtype == DType::f32) return run(float(), f16());
  if (in.dtype == DType::bf16 && out.dtype == DType::f32) return run(float(), bf16());
  if (in.dtype == DType::f32 && out.dtype == DType::f64) return run(double(), float());
  if (in.dtype == DType::f64 && out.dtype == DType::f32) return run(float(), double());
  return false;
}

}  // namespace

void CudaKernels::fill(const TensorView& out, const Scalar& value, backend::StreamHandle stream) {
  const lockstep::detail::FloatEnvironment floats;
  const Place place = place_on(stream);
  const Loops loops(out, out);
  dispatch(out.dtype, [&]<class T>() {
    const T element = value.as<T>();
    dispatch_size(out.dtype, [&]<class Bits>() {
      if constexpr (sizeof(Bits) == sizeof(T)) {
        const Bits bits = std::bit_cast<Bits>(element);
        const bool aligned = are_multiples(sizeof(T), out.data);
        if (loops.is_contiguous()) {
          const Split split = split_run<Bits>(out.size(), out.data);
          launch(place, "fill", split.blocks(out.size()), kThreads, fill_run<Bits>,
                 split.origin<Bits>(out.data), bits, out.size(), split, aligned);
        } else {
          launch(place, "fill", blocks_for(out.size()), kThreads, fill_strided<Bits>, out.data, bits, loops,
                 out.size(), aligned);
        }
      }
    });
  });
}

void CudaKernels::copy(const TensorView& out, const TensorView& in, backend::StreamHandle stream) {
  const Place place = place_on(stream);
  const Loops loops(out, in);
  const std::int64_t count = out.size();
  if (out.dtype == in.dtype) {
    if (loops.is_contiguous()) {
      if (out.data == in.data) return;
      const DeviceGuard guard(place.ordinal, place.device);
      LOCKSTEP_CUDA_CHECK(cudaMemcpyAsync(out.data, in.data, static_cast<std::size_t>(out.nbytes()),
                                          cudaMemcpyDeviceToDevice, place.stream),
                          device_, "copy");
      return;
    }
    return dispatch_size(out.dtype, [&]<class Bits>() {
      if (const auto transposed = transposition_of(loops)) {
        const std::int64_t tiles = transposed->batches * ((transposed->rows + kTile - 1) / kTile) *
                                   ((transposed->columns + kTile - 1) / kTile);
        return launch(place, "copy", blocks_for(tiles * kThreads), kThreads, transpose_tiles<Bits>, out.data,
                      in.data, *transposed, tiles, are_multiples(sizeof(Bits), out.data, in.data));
      }
      launch(place, "copy", blocks_for(count), kThreads, copy_strided<Bits>, out.data, in.data, loops, count,
             are_multiples(sizeof(Bits), out.data, in.data));
    });
  }
  if (loops.is_contiguous() && converted_as_run(place, out, in)) return;
  const auto convert_from = [&]<class Wide>(Wide) {
    dispatch(out.dtype, [&]<class Out>() {
      launch(place, "copy", blocks_for(count), kThreads, convert_strided<Out, Wide>, out.data, in.data,
             in.dtype, loops, count, are_multiples(sizeof(Out), out.data),
             are_multiples(size_of(in.dtype), in.data));
    });
  };
  switch (accumulator_dtype(in.dtype)) {
    case DType::f32: return convert_from(float());
    case DType::f64: return convert_from(double());
    case DType::i64: return convert_from(std::int64_t());
    default: return convert_from(std::uint64_t());
  }
}

}  // namespace lockstep::cuda
