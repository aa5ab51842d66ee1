#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include "kernels/element.cuh"
#include "kernels/launch.cuh"

namespace lockstep::cuda {

/// How threads go through a run of elements: singly up to a boundary, then by vectors of 16 bytes, then
/// singly. Kernels count elements from the first vector on: those of the head have negative numbers.
struct Split {
  std::int64_t head = 0;
  std::int64_t num_vectors = 0;

  /// The place of element 0 in an array of Ts; null stays null.
  template <class T, class P>
  P* origin(P* array) const {
    using Bytes = std::conditional_t<std::is_const_v<P>, const std::byte, std::byte>;
    return array == nullptr ? nullptr
                            : static_cast<Bytes*>(array) + head * static_cast<std::int64_t>(sizeof(T));
  }
  unsigned blocks(std::int64_t count) const { return blocks_for(num_vectors > 0 ? num_vectors : count); }
};

/// The split of `count` elements in arrays at these addresses, of which null counts for none. It has no
/// vectors where no element begins at a multiple of 16 bytes in all arrays.
template <class T>
Split split_run(std::int64_t count, std::span<const void* const> addresses) {
  // From a multiple of 32 bytes on, a warp's vectors share no sector of memory with another's.
  for (const std::uintptr_t boundary : {std::uintptr_t{32}, std::uintptr_t{16}}) {
    std::uintptr_t place = boundary;  // of the first array behind a boundary
    bool all_agree = true;
    for (const void* const address : addresses) {
      if (address == nullptr) continue;
      const std::uintptr_t own = reinterpret_cast<std::uintptr_t>(address) % boundary;
      if (place == boundary) place = own;
      all_agree = all_agree && own == place;
    }
    const std::uintptr_t missing = (boundary - place) % boundary;
    if (!all_agree || missing % sizeof(T) != 0) continue;
    const std::int64_t head = std::min(count, static_cast<std::int64_t>(missing / sizeof(T)));
    const std::int64_t per_boundary = static_cast<std::int64_t>(boundary / 16);  // vectors
    return {head, (count - head) / kPer16Bytes<T> / per_boundary * per_boundary};
  }
  return {};
}
template <class T, class... Addresses>
Split split_run(std::int64_t count, const Addresses*... addresses) {
  return split_run<T>(count, std::array<const void*, sizeof...(addresses)>{addresses...});
}

/// Calls `f(i, 1 as a constant)` for each element that is in no vector of kCount. @param count  of all.
template <int kCount, class F>
__device__ __forceinline__ void for_each_single(std::int64_t count, const Split& split, F f) {
  const std::int64_t in_vectors = split.num_vectors * kCount;
  const std::int64_t end = count - in_vectors - split.head;
  for (std::int64_t i = thread_index() - split.head; i < end; i += num_threads())
    f(i < 0 ? i : i + in_vectors, std::integral_constant<int, 1>());
}

/// Calls `f(i, kCount as a constant)` for each vector, then `f(i, 1 as a constant)` for each single element.
/// @param count  of all elements.
template <int kCount, class F>
__device__ __forceinline__ void for_each_vector(std::int64_t count, const Split& split, F f) {
  for (std::int64_t v = thread_index(); v < split.num_vectors; v += num_threads())
    f(v * kCount, std::integral_constant<int, kCount>());
  for_each_single<kCount>(count, split, f);
}

}  // namespace lockstep::cuda
