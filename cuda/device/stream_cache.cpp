#include "device/stream_cache.hpp"

#include <iterator>

#include "graphs/capture.hpp"
#include "graphs/private_streams.hpp"

namespace lockstep::cuda {

// Multiples of what the driver's pools round to anyway: steps of a program ask for the same sizes again.
std::size_t StreamCache::rounded(std::size_t size_bytes) const {
  constexpr std::size_t kUnit = 512;
  if (most_bytes_ == 0 || size_bytes > kLargest) return size_bytes;
  return (size_bytes + kUnit - 1) / kUnit * kUnit;
}

bool StreamCache::serves(cudaStream_t stream, std::size_t size_bytes) const {
  return most_bytes_ > 0 && size_bytes <= kLargest &&
         static_cast<std::int64_t>(rounded(size_bytes)) <= most_bytes_ &&
         PrivateStreams::instance().last_capture(stream) == 0;
}

void* StreamCache::take(cudaStream_t stream, std::size_t size_bytes) {
  if (!serves(stream, size_bytes)) return nullptr;
  const std::size_t size = rounded(size_bytes);
  const std::lock_guard lock(mutex_);
  const auto found = free_.find({stream, size});
  if (found == free_.end() || found->second.empty()) return nullptr;
  void* const data = found->second.back();
  found->second.pop_back();
  bytes_ -= static_cast<std::int64_t>(size);
  return data;
}

bool StreamCache::keep(void* data, std::size_t size_bytes, cudaStream_t stream) {
  if (!serves(stream, size_bytes)) return false;
  const std::size_t size = rounded(size_bytes);
  const std::lock_guard lock(mutex_);
  if (bytes_ + static_cast<std::int64_t>(size) > most_bytes_) return false;
  free_[{stream, size}].push_back(data);
  bytes_ += static_cast<std::int64_t>(size);
  return true;
}

void StreamCache::drain(GiveBack give_back) {
  decltype(free_) taken;  // and given back without the lock, which other threads' allocations need
  {
    const std::lock_guard lock(mutex_);
    for (auto entry = free_.begin(); entry != free_.end();) {
      const auto next = std::next(entry);
      const auto& [stream, size] = entry->first;
      if (!is_in_capture(stream)) {
        bytes_ -= static_cast<std::int64_t>(size * entry->second.size());
        taken.insert(free_.extract(entry));
      }
      entry = next;
    }
  }
  for (const auto& [place, memory] : taken)
    for (void* const data : memory) give_back(data, place.second, place.first);
}

}  // namespace lockstep::cuda
