#include <algorithm>
#include <cstdint>

#include "graphs/cuda_graphs.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"

namespace lockstep::cuda {
namespace {

/// One block, as the position changes when all threads have read it. The host's memory is read past caches.
__global__ void __launch_bounds__(kThreads)
    take(std::uint64_t* block, const std::uint64_t* slots, std::int64_t slot_words, std::int64_t num_slots,
         std::uint64_t* position) {
  const std::uint64_t now = *position;
  const auto slot = static_cast<std::int64_t>(now % static_cast<std::uint64_t>(num_slots));
  const volatile std::uint64_t* const words = slots + slot * slot_words;
  for (std::int64_t i = threadIdx.x; i < slot_words; i += blockDim.x) block[i] = words[i];
  __syncthreads();
  if (threadIdx.x == 0) *position = now + 1;
}

/// Row y of the grid makes copy y of the list.
__global__ void __launch_bounds__(kThreads) copy_each(const backend::ListedCopy* list) {
  const backend::ListedCopy copy = list[blockIdx.y];
  if (copy.destination == copy.source) return;
  using Bytes = Vector<std::uint32_t, 4>;
  const bool aligned =
      (reinterpret_cast<std::uintptr_t>(copy.destination) | reinterpret_cast<std::uintptr_t>(copy.source)) %
          sizeof(Bytes) ==
      0;
  const std::int64_t num_vectors = aligned ? copy.size_bytes / std::int64_t{sizeof(Bytes)} : 0;
  for (std::int64_t v = thread_index(); v < num_vectors; v += num_threads())
    static_cast<Bytes*>(copy.destination)[v] = static_cast<const Bytes*>(copy.source)[v];
  for (std::int64_t i = num_vectors * std::int64_t{sizeof(Bytes)} + thread_index(); i < copy.size_bytes;
       i += num_threads())
    static_cast<unsigned char*>(copy.destination)[i] = static_cast<const unsigned char*>(copy.source)[i];
}

__global__ void write_position(volatile std::uint64_t* reported, const std::uint64_t* position) {
  *reported = *position;
}

template <class Kernel>
void load_kernel(Kernel* kernel, const Device& device) {
  cudaFuncAttributes attributes{};
  LOCKSTEP_CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel), device, "Loading the kernels of graphs");
}

}  // namespace

void CudaGraphs::load_kernels() {
  load_kernel(take, device_);
  load_kernel(copy_each, device_);
  load_kernel(write_position, device_);
}

void CudaGraphs::take_slot(void* block, const void* slots, std::size_t slot_bytes, std::int64_t num_slots,
                           std::uint64_t* position, backend::StreamHandle stream) {
  launch(place_on(stream), "Taking a step's numbers", 1, kThreads, take, static_cast<std::uint64_t*>(block),
         static_cast<const std::uint64_t*>(slots),
         static_cast<std::int64_t>(slot_bytes / sizeof(std::uint64_t)), num_slots, position);
}

void CudaGraphs::copy_listed(const backend::ListedCopy* list, std::int64_t count, std::int64_t largest_bytes,
                             backend::StreamHandle stream) {
  constexpr std::int64_t kMostRows = 65535;  // of a grid
  for (std::int64_t begin = 0; begin < count; begin += kMostRows) {
    const dim3 grid(blocks_for(largest_bytes / 16),
                    static_cast<unsigned>(std::min(count - begin, kMostRows)));
    launch(place_on(stream), "Copying a step's arguments or results", grid, kThreads, copy_each,
           list + begin);
  }
}

void CudaGraphs::report(std::uint64_t* reported, const std::uint64_t* position,
                        backend::StreamHandle stream) {
  launch(place_on(stream), "Reporting a step", 1, 1, write_position, reported, position);
}

}  // namespace lockstep::cuda
