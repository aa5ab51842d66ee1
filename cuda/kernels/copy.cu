#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include <lockstep/detail/saturate_cast.hpp>

#include "cuda_kernels.hpp"
#include "detail/float_environment.hpp"
#include "detail/loops.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/split.cuh"
#include "kernels/staged.cuh"
#include "kernels/transpose.hpp"

namespace lockstep::cuda {
namespace {

using lockstep::detail::Loops;
using lockstep::detail::saturate_cast;

/// Division of numbers below 2^31, by a multiplication.
struct Divisor {
  std::uint32_t factor = 1;
  int shift = 0;

  Divisor() = default;
  explicit Divisor(std::uint64_t divisor)
      : factor(static_cast<std::uint32_t>(
            (((std::uint64_t{1} << std::bit_width(divisor - 1)) - divisor) << 32) / divisor + 1)),
        shift(std::bit_width(divisor - 1)) {}
  __device__ std::uint32_t quotient(std::uint32_t n) const { return (__umulhi(n, factor) + n) >> shift; }
};

/// Loops over units of some elements that lie side by side in both arrays.
struct Walk {
  Loops loops;  ///< Of units.
  bool is_small;
  Divisor divisors[Shape::kMaxRank];

  explicit Walk(const Loops& loops) : loops(loops), is_small(count() < std::int64_t{1} << 31) {
    for (int axis = 0; is_small && axis < loops.rank; ++axis)
      divisors[axis] = Divisor(static_cast<std::uint64_t>(loops.extents[static_cast<std::size_t>(axis)]));
  }
  std::int64_t count() const {
    std::int64_t count = 1;
    for (int axis = 0; axis < loops.rank; ++axis) count *= loops.extents[static_cast<std::size_t>(axis)];
    return count;
  }
};

struct Offsets {
  std::int64_t out, in;
};

/// The offsets, in units, of the i-th unit on both sides.
__device__ Offsets offsets_of(const Walk& walk, std::int64_t i) {
  const Loops& loops = walk.loops;
  if (loops.rank == 1) return {i * loops.out[0], i * loops.in[0]};
  Offsets offsets{0, 0};
  for (int axis = loops.rank - 1; axis > 0; --axis) {
    const std::int64_t next =
        walk.is_small ? walk.divisors[axis].quotient(static_cast<std::uint32_t>(i)) : i / loops.extents[axis];
    const std::int64_t index = i - next * loops.extents[axis];
    offsets.out += index * loops.out[axis];
    offsets.in += index * loops.in[axis];
    i = next;
  }
  return {offsets.out + i * loops.out[0], offsets.in + i * loops.in[0]};
}

/// Whether rows, and with them the loops, consist of units of so many elements.
bool are_units(const Loops& loops, std::int64_t size) {
  const auto last = static_cast<std::size_t>(loops.rank) - 1;
  if (loops.out[last] != 1 || loops.in[last] != 1 || loops.extents[last] % size != 0) return false;
  for (std::size_t axis = 0; axis < last; ++axis)
    if (loops.out[axis] % size != 0 || loops.in[axis] % size != 0) return false;
  return true;
}

/// @pre are_units
Walk walk_in_units(Loops loops, std::int64_t size) {
  const auto last = static_cast<std::size_t>(loops.rank) - 1;
  loops.extents[last] /= size;
  for (std::size_t axis = 0; axis < last; ++axis) {
    loops.out[axis] /= size;
    loops.in[axis] /= size;
  }
  return Walk(loops);
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
    fill_strided(void* out, Bits value, __grid_constant__ const Walk walk, std::int64_t count, bool aligned) {
  for (std::int64_t i = thread_index(); i < count; i += num_threads())
    store<Bits, 1>(out, offsets_of(walk, i).out, {value}, aligned);
}

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    copy_strided(void* out, const void* in, __grid_constant__ const Walk walk, std::int64_t count,
                 bool aligned) {
  for (std::int64_t i = thread_index(); i < count; i += num_threads()) {
    const auto [to, from] = offsets_of(walk, i);
    store<Bits, 1>(out, to, load<Bits, 1>(in, from, aligned), aligned);
  }
}

/// The same where `out` is one run: what a block has loaded goes through shared memory, so that 16 bytes are
/// stored at once.
template <class Bits>
__global__ void __launch_bounds__(kThreads, 6)
    gather_strided(std::byte* out, const void* in, __grid_constant__ const Walk walk, std::int64_t count,
                   bool aligned) {
  constexpr int kSize = sizeof(Bits), kEach = kPer16Bytes<Bits>, kBlock = kThreads * kEach;
  constexpr int kInFlight = kEach < 4 ? kEach : 4;
  __shared__ uint4 staged[kThreads + 1];
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t first = std::int64_t{blockIdx.x} * kBlock; first < count;
       first += std::int64_t{gridDim.x} * kBlock) {
    const int units = static_cast<int>(min(std::int64_t{kBlock}, count - first));
#pragma unroll 1
    for (int i = thread; i < units; i += kInFlight * kThreads) {
      Vector<Bits, 1> batch[kInFlight];
#pragma unroll
      for (int u = 0; u < kInFlight; ++u)
        if (const int at = i + u * kThreads; at < units)
          batch[u] = load<Bits, 1>(in, offsets_of(walk, first + at).in, aligned);
#pragma unroll
      for (int u = 0; u < kInFlight; ++u)
        if (const int at = i + u * kThreads; at < units) store<Bits, 1>(staged, at, batch[u], true);
    }
    __syncthreads();
    store_staged<kThreads>(out + first * kSize, units * kSize, staged, 0);
    __syncthreads();  // before the next units
  }
}

template <class Wide, int kCount>
struct Values {
  Wide values[kCount];
};

/// Elements [i, i + kCount) of an array of `dtype`, exactly; Wide is its accumulator type. The switch is the
/// same for all threads.
template <class Wide, int kCount>
__device__ Values<Wide, kCount> read(const void* in, DType dtype, std::int64_t i, bool aligned) {
  const auto as = [&]<class T>(T) {
    const auto vector = load<T, kCount>(in, i, aligned);
    Values<Wide, kCount> result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) result.values[j] = static_cast<Wide>(widen(vector.elements[j]));
    return result;
  };
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

/// As saturate_cast, by the hardware's instructions where it has them.
template <class Out, class Wide>
__device__ Out converted(Wide value) {
  if constexpr (std::same_as<Wide, float> && (std::same_as<Out, f16> || std::same_as<Out, bf16>))
    return narrow<Out>(value);
  else
    return saturate_cast<Out>(value);
}

/// Converts units of kCount elements, and, of single runs, the elements that are in none.
template <class Out, class Wide, int kCount>
__global__ void __launch_bounds__(kThreads)
    convert(void* out, const void* in, DType in_dtype, __grid_constant__ const Walk walk, std::int64_t count,
            Split split, bool out_aligned, bool in_aligned) {
  const auto at = [=](std::int64_t to, std::int64_t from, auto constant) {
    constexpr int kUnit = decltype(constant)::value;
    const auto wide = read<Wide, kUnit>(in, in_dtype, from, in_aligned);
    Vector<Out, kUnit> result;
#pragma unroll
    for (int j = 0; j < kUnit; ++j) result.elements[j] = converted<Out>(wide.values[j]);
    store<Out, kUnit>(out, to, result, out_aligned);
  };
  for (std::int64_t v = thread_index(); v < split.num_vectors; v += num_threads()) {
    const auto [to, from] = offsets_of(walk, v);
    at(to * kCount, from * kCount, std::integral_constant<int, kCount>());
  }
  for_each_single<kCount>(count, split, [=](std::int64_t i, auto one) { at(i, i, one); });
}

/// The units that a conversion takes: kCount elements, or 1 where layout or addresses have no others.
struct Units {
  int size;
  Split split;  ///< num_vectors is their number.
};

Units units_of(const TensorView& out, const TensorView& in, const Loops& loops) {
  const std::size_t out_size = size_of(out.dtype), in_size = size_of(in.dtype);
  const int size = std::max(out_size, in_size) == 8 ? 2 : 4;
  const auto begin_at = [&](std::int64_t element) {
    const auto unit = static_cast<std::size_t>(size);
    return are_multiples(unit * out_size,
                         static_cast<std::byte*>(out.data) + element * std::int64_t(out_size)) &&
           are_multiples(unit * in_size, static_cast<std::byte*>(in.data) + element * std::int64_t(in_size));
  };
  if (loops.is_contiguous()) {
    for (std::int64_t head = 0; head < size; ++head)
      if (begin_at(head) && head < out.size()) return {size, {head, (out.size() - head) / size}};
  } else if (are_units(loops, size) && begin_at(0)) {
    return {size, {0, out.size() / size}};
  }
  return {1, {0, out.size()}};
}

/// Converts from dtypes whose accumulator is Wide.
template <class Wide>
void convert_from(const Place& place, const TensorView& out, const TensorView& in, const Loops& loops) {
  const auto [size, split] = units_of(out, in, loops);
  dispatch(out.dtype, [&]<class Out>() {
    const auto run = [&, size = size, split = split]<int kCount>() {
      const Walk walk = loops.is_contiguous() || size == 1 ? Walk(loops) : walk_in_units(loops, size);
      const auto offset = [&, split = split](const TensorView& view) {
        return static_cast<std::byte*>(view.data) +
               split.head * static_cast<std::int64_t>(size_of(view.dtype));
      };
      launch(place, "copy", split.blocks(out.size()), kThreads, convert<Out, Wide, kCount>, offset(out),
             offset(in), in.dtype, walk, out.size(), split, are_multiples(sizeof(Out), out.data),
             are_multiples(size_of(in.dtype), in.data));
    };
    if (size == 1) return run.template operator()<1>();
    if constexpr (sizeof(Out) < 8 && !std::same_as<Wide, double>)
      if (size == 4) return run.template operator()<4>();
    if constexpr (sizeof(Out) == 8 || sizeof(Wide) == 8) run.template operator()<2>();
  });
}

}  // namespace

void CudaKernels::fill(const TensorView& out, const Scalar& value, backend::StreamHandle stream) {
  const lockstep::detail::FloatEnvironment floats;
  const Place place = place_on(stream);
  const Loops loops(out, out);
  dispatch(out.dtype, [&]<class T>() {
    const T element = value.as<T>();
    dispatch_size(sizeof(T), [&]<class Bits>() {
      if constexpr (sizeof(Bits) == sizeof(T)) {
        const Bits bits = std::bit_cast<Bits>(element);
        const bool aligned = are_multiples(sizeof(T), out.data);
        if (loops.is_contiguous()) {
          const Split split = split_run<Bits>(out.size(), out.data);
          launch(place, "fill", split.blocks(out.size()), kThreads, fill_run<Bits>,
                 split.origin<Bits>(out.data), bits, out.size(), split, aligned);
        } else {
          launch(place, "fill", blocks_for(out.size()), kThreads, fill_strided<Bits>, out.data, bits,
                 Walk(loops), out.size(), aligned);
        }
      }
    });
  });
}

void CudaKernels::copy(const TensorView& out, const TensorView& in, backend::StreamHandle stream) {
  const Place place = place_on(stream);
  const Loops loops(out, in);
  if (out.dtype == in.dtype) {
    if (loops.is_contiguous()) {
      if (out.data == in.data) return;
      const DeviceGuard guard(place.ordinal, place.device);
      LOCKSTEP_CUDA_CHECK(cudaMemcpyAsync(out.data, in.data, static_cast<std::size_t>(out.nbytes()),
                                          cudaMemcpyDeviceToDevice, place.stream),
                          device_, "copy");
      return;
    }
    const std::size_t size = size_of(out.dtype);
    if (transpose(place, out, in, loops)) return;
    std::size_t unit = 16;  // bytes: the most that lie side by side everywhere
    while (unit > size && !(are_units(loops, static_cast<std::int64_t>(unit / size)) &&
                            are_multiples(unit, out.data, in.data)))
      unit /= 2;
    const Walk walk =
        unit > size ? walk_in_units(loops, static_cast<std::int64_t>(unit / size)) : Walk(loops);
    return dispatch_size(unit, [&]<class Bits>() {
      if constexpr (sizeof(Bits) < 16)
        if (out.is_contiguous())
          return launch(place, "copy", blocks_for((walk.count() + kPer16Bytes<Bits> - 1) / kPer16Bytes<Bits>),
                        kThreads, gather_strided<Bits>, static_cast<std::byte*>(out.data), in.data, walk,
                        walk.count(), are_multiples(sizeof(Bits), in.data));
      launch(place, "copy", blocks_for(walk.count()), kThreads, copy_strided<Bits>, out.data, in.data, walk,
             walk.count(), are_multiples(sizeof(Bits), out.data, in.data));
    });
  }
  switch (accumulator_dtype(in.dtype)) {
    case DType::f32: return convert_from<float>(place, out, in, loops);
    case DType::f64: return convert_from<double>(place, out, in, loops);
    case DType::i64: return convert_from<std::int64_t>(place, out, in, loops);
    default: return convert_from<std::uint64_t>(place, out, in, loops);
  }
}

}  // namespace lockstep::cuda
