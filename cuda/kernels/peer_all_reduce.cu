#include <algorithm>
#include <bit>
#include <cstdint>

#include "arithmetic/operators.hpp"
#include "kernels/combine.cuh"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/peer_all_reduce.hpp"

namespace lockstep::cuda {
namespace {

/// The elements of a pack.
template <class T>
inline constexpr int kPerPack = static_cast<int>(kPackBytes / sizeof(T));
template <class T>
using Pack = Vector<T, kPerPack<T>>;

/// Stale flags must not be taken for new ones when numbers come again after 2^32 calls: now and then a call
/// of each half gives all its slots a recent number.
inline constexpr unsigned kCallsBetweenRenewals = 1u << 24;

__device__ void store_slot(uint4* slot, uint2 data, unsigned flag) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(slot), "r"(data.x), "r"(flag),
               "r"(data.y), "r"(flag)
               : "memory");
}
__device__ uint4 load_slot(const uint4* slot) {
  uint4 value;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(slot)
               : "memory");
  return value;
}

template <class A>
__device__ __forceinline__ A apply(ReduceOp op, A a, A b) {
  switch (op) {
    case ReduceOp::min: return arithmetic::Min::apply(a, b);
    case ReduceOp::max: return arithmetic::Max::apply(a, b);
    case ReduceOp::product: return arithmetic::Product::apply(a, b);
    default: return arithmetic::Sum::apply(a, b);
  }
}

/// A thread's part of a call. Pack i of a part is always the same thread's, in all loops.
template <class T>
class Part {
 public:
  __device__ explicit Part(const PeerAllReduce& part)
      : part_(part),
        number_(part.control->num_calls + 1),
        num_packs_((part.count + kPerPack<T> - 1) / kPerPack<T>) {}

  __device__ __forceinline__ void run() {
    if ((number_ + kCallsBetweenRenewals / 2) % kCallsBetweenRenewals < 2) renew();
    if (part_.in_two_shots)
      two_shots();
    else
      one_shot();
  }

 private:
  __device__ __forceinline__ void one_shot() {
    for (std::int64_t i = thread_index(); i < num_packs_; i += num_threads()) send_to_all(i, input(i));
    for (std::int64_t i = thread_index(); i < num_packs_; i += num_threads())
      output(i, combine(i, [&](int rank) { return rank == part_.rank ? input(i) : receive(rank, i); }));
  }

  __device__ __forceinline__ void two_shots() {
    const std::int64_t half = part_.capacity / 2;
    for (int k = 1; k < part_.num_ranks; ++k) {
      const int to = (part_.rank + k) % part_.num_ranks;
      for_own(to, [&](std::int64_t i, std::int64_t pack) { send(to, i, input(pack)); });
    }
    for_own(part_.rank, [&](std::int64_t i, std::int64_t pack) {
      const Pack<T> result =
          combine(pack, [&](int rank) { return rank == part_.rank ? input(pack) : receive(rank, i); });
      send_to_all(half + i, result);
      output(pack, result);
    });
    for (int k = 1; k < part_.num_ranks; ++k) {
      const int from = (part_.rank + k) % part_.num_ranks;
      for_own(from, [&](std::int64_t i, std::int64_t pack) { output(pack, receive(from, half + i)); });
    }
  }

  /// Calls f(i, pack) for this thread's packs of those that the rank combines.
  template <class F>
  __device__ __forceinline__ void for_own(int rank, const F& f) {
    const std::int64_t begin = num_packs_ * rank / part_.num_ranks;
    const std::int64_t size = num_packs_ * (rank + 1) / part_.num_ranks - begin;
    for (std::int64_t i = thread_index(); i < size; i += num_threads()) f(i, begin + i);
  }

  __device__ __forceinline__ void renew() {
    for (int to = 0; to < part_.num_ranks; ++to)
      for (std::int64_t i = thread_index(); i < part_.capacity; i += num_threads())
        if (to != part_.rank) store_slot(slot(to, part_.rank, i), {}, number_ - 2);
  }

  __device__ __forceinline__ uint4* slot(int to, int from, std::int64_t i) const {
    return static_cast<uint4*>(part_.slots[to]) +
           (std::int64_t{static_cast<int>(number_ % 2) * part_.num_ranks + from} * part_.capacity + i);
  }
  __device__ __forceinline__ void send(int to, std::int64_t i, const Pack<T>& pack) {
    store_slot(slot(to, part_.rank, i), std::bit_cast<uint2>(pack), number_);
  }
  __device__ __forceinline__ void send_to_all(std::int64_t i, const Pack<T>& pack) {
    for (int k = 1; k < part_.num_ranks; ++k) send((part_.rank + k) % part_.num_ranks, i, pack);
  }
  __device__ __forceinline__ Pack<T> receive(int from, std::int64_t i) {
    constexpr int kLooksBetweenAborts = 64;
    const uint4* const place = slot(part_.rank, from, i);
    for (int looks = 1; !gives_up_; ++looks) {
      const uint4 value = load_slot(place);
      if (value.y == number_ && value.w == number_) return std::bit_cast<Pack<T>>(uint2{value.x, value.z});
      if (looks % kLooksBetweenAborts == 0) gives_up_ = *part_.aborts != 0;
    }
    return {};
  }

  __device__ __forceinline__ int num_elements(std::int64_t pack) const {
    const std::int64_t rest = part_.count - pack * kPerPack<T>;
    return rest < kPerPack<T> ? static_cast<int>(rest) : kPerPack<T>;
  }
  static __device__ bool is_multiple(const void* address, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
  }
  __device__ __forceinline__ Pack<T> input(std::int64_t pack) const {
    const std::int64_t first = pack * kPerPack<T>;
    const int n = num_elements(pack);
    if (n == kPerPack<T> && is_multiple(part_.input, kPackBytes))
      return load<T, kPerPack<T>>(part_.input, first, true);
    const bool aligned = is_multiple(part_.input, sizeof(T));
    Pack<T> result{};
#pragma unroll
    for (int j = 0; j < kPerPack<T>; ++j)
      if (j < n) result.elements[j] = load<T, 1>(part_.input, first + j, aligned).elements[0];
    return result;
  }
  __device__ __forceinline__ void output(std::int64_t pack, const Pack<T>& value) const {
    if (gives_up_ || part_.output == nullptr) return;
    const std::int64_t first = pack * kPerPack<T>;
    const int n = num_elements(pack);
    if (n == kPerPack<T> && is_multiple(part_.output, kPackBytes))
      return store<T, kPerPack<T>>(part_.output, first, value, true);
    const bool aligned = is_multiple(part_.output, sizeof(T));
#pragma unroll
    for (int j = 0; j < kPerPack<T>; ++j)
      if (j < n) store<T, 1>(part_.output, first + j, {{value.elements[j]}}, aligned);
  }

  /// @param contribution  of a rank; may be asked for again.
  template <class Contribution>
  __device__ __forceinline__ Pack<T> combine(std::int64_t pack, const Contribution& contribution) const {
    using A = compute_t<T>;
    A acc[kPerPack<T>];
    const Pack<T> first = contribution(0);
#pragma unroll
    for (int j = 0; j < kPerPack<T>; ++j) acc[j] = widen(first.elements[j]);
#pragma unroll 1
    for (int rank = 1; rank < part_.num_ranks; ++rank) {
      const Pack<T> next = contribution(rank);
#pragma unroll
      for (int j = 0; j < kPerPack<T>; ++j) acc[j] = apply(part_.op, acc[j], widen(next.elements[j]));
    }
    return results_of<arithmetic::Sum, T>(acc, part_.num_ranks, part_.op == ReduceOp::mean, kPerPack<T>,
                                          [&](int rank, int at) {
                                            const Pack<T> pack = contribution(rank);
                                            T element = pack.elements[0];
#pragma unroll
                                            for (int j = 1; j < kPerPack<T>; ++j)
                                              if (j == at) element = pack.elements[j];
                                            return widen(element);
                                          });
  }

  const PeerAllReduce& part_;
  const unsigned number_;
  const std::int64_t num_packs_;
  bool gives_up_ = false;
};

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    peer_all_reduce_kernel(__grid_constant__ const PeerAllReduce part) {
  Part<T>(part).run();
  // The last block counts the call: by then all have read the number.
  __syncthreads();
  if (threadIdx.x != 0 || atomicAdd(&part.control->num_blocks_done, 1) + 1 < gridDim.x) return;
  part.control->num_blocks_done = 0;
  ++part.control->num_calls;
}

}  // namespace

std::int64_t peer_threads(std::int64_t num_packs, int num_ranks, bool in_two_shots) {
  // A thread has about two packs to send to each of the others.
  const std::int64_t at_once = in_two_shots ? num_packs * 2 / num_ranks : num_packs;
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(1, at_once / 2));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_ceil(wanted)), kThreads,
                                  kMostPeerThreads);
}

void load_peer_all_reduce(const Place& place, DType dtype) {
  dispatch(dtype, [&]<class T>() {
    if constexpr (!std::same_as<T, bool>) {
      const DeviceGuard guard(place.ordinal, place.device);
      cudaFuncAttributes attributes;
      LOCKSTEP_CUDA_CHECK(cudaFuncGetAttributes(&attributes, peer_all_reduce_kernel<T>), place.device,
                          "Loading a kernel");
    }
  });
}

void peer_all_reduce(const Place& place, DType dtype, const PeerAllReduce& part) {
  dispatch(dtype, [&]<class T>() {
    if constexpr (!std::same_as<T, bool>) {
      const std::int64_t num_packs = (part.count + kPerPack<T> - 1) / kPerPack<T>;
      const std::int64_t threads = peer_threads(num_packs, part.num_ranks, part.in_two_shots);
      launch(place, "Combining GPUs' values", static_cast<unsigned>(threads / kThreads), kThreads,
             peer_all_reduce_kernel<T>, part);
    }
  });
}

}  // namespace lockstep::cuda
