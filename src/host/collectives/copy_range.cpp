#include "host/collectives/copy_range.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "host/collectives/streaming.hpp"

namespace lockstep::host {

void copy_range(const void* source, std::int64_t size_bytes, std::span<void* const> destinations,
                bool streaming) {
  constexpr std::size_t kBlockBytes =
      16384;  // half of a first-level cache: only the first destination reads from memory
  const auto size = static_cast<std::size_t>(size_bytes);
  for (std::size_t begin = 0; begin < size; begin += kBlockBytes) {
    const std::size_t n = std::min(kBlockBytes, size - begin);
    const std::byte* in = static_cast<const std::byte*>(source) + begin;
    for (void* destination : destinations) {
      if (destination == nullptr || destination == source) continue;
      std::byte* out = static_cast<std::byte*>(destination) + begin;
      if (streaming)
        stream_copy(out, in, n);
      else
        std::memcpy(out, in, n);
    }
  }
}

}  // namespace lockstep::host
