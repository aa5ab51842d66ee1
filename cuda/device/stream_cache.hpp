#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <lockstep/detail/function_ref.hpp>

namespace lockstep::cuda {

/// Short device memory that was freed on a stream, for the stream's next allocation of that size: what a
/// stream does then follows what it did before, so neither CUDA nor an event is needed. It serves the
/// library's own streams while they are in no capture. Others might be destroyed and made again meanwhile.
///
/// Calls no CUDA but in drain(). Thread-safe.
class StreamCache {
 public:
  /// As long as short tensors, whose operations cost no more than the calls around them. Longer memory is
  /// kept for all streams, by the driver's pool.
  static constexpr std::size_t kLargest = std::size_t{1} << 20;
  static constexpr const char* kVariable = "LOCKSTEP_STREAM_CACHE_BYTES";
  static constexpr std::int64_t kDefaultMostBytes = std::int64_t{64} << 20;

  /// @param most_bytes  what it keeps; 0: nothing.
  explicit StreamCache(std::int64_t most_bytes) : most_bytes_(most_bytes) {}

  /// What to allocate for so many bytes, so that the memory serves every allocation of its size here.
  std::size_t rounded(std::size_t size_bytes) const;
  /// Whether memory of that size, freed on that stream, is kept as long as there is room.
  bool serves(cudaStream_t stream, std::size_t size_bytes) const;
  /// Null: there is none.
  void* take(cudaStream_t stream, std::size_t size_bytes);
  /// @return false: there is no room, or it does not serve the stream; the caller frees it.
  bool keep(void* data, std::size_t size_bytes, cudaStream_t stream);
  /// Frees memory, on a stream.
  using GiveBack = detail::FunctionRef<void(void* data, std::size_t size_bytes, cudaStream_t stream)>;
  /// Gives back what it keeps, except for streams that have joined a capture since.
  void drain(GiveBack give_back);

 private:
  const std::int64_t most_bytes_;
  std::mutex mutex_;  // guards the members below
  std::int64_t bytes_ = 0;
  std::map<std::pair<cudaStream_t, std::size_t>, std::vector<void*>> free_;
};

}  // namespace lockstep::cuda
