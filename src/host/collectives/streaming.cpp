#include "host/collectives/streaming.hpp"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace lockstep::host {
namespace {

// What this process may expect to find cached. A virtual machine shows all of its host's last level, of which
// its cores have a part: on most processors not more than four times a core's second level.
std::int64_t cached_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  const std::int64_t second = sysconf(_SC_LEVEL2_CACHE_SIZE), third = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::int64_t num_cores = std::max<std::int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1);
  if (second > 0 && third > 0) return std::min(third, 4 * second * num_cores);
  if (std::max(second, third) > 0) return std::max(second, third);
#endif
  return std::int64_t{32} << 20;
}

}  // namespace

bool streaming_pays(std::int64_t bytes) {
  static const std::int64_t cached = cached_bytes();
  return bytes > cached;
}

#ifdef __SSE2__

void stream_copy(void* destination, const void* source, std::size_t size_bytes) {
  constexpr std::size_t kLine = 64;
  auto* out = static_cast<std::byte*>(destination);
  const auto* in = static_cast<const std::byte*>(source);
  // Only whole lines: a part of one would be read, merged and written by itself.
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(out) % kLine;
  const std::size_t head = std::min(size_bytes, (kLine - misaligned) % kLine);
  std::memcpy(out, in, head);
  std::size_t i = head;
  for (; i + kLine <= size_bytes; i += kLine) {
    for (std::size_t j = i; j < i + kLine; j += sizeof(__m128i)) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + j));
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + j), value);
    }
  }
  std::memcpy(out + i, in + i, size_bytes - i);
}

void end_streaming() { _mm_sfence(); }

#else

void stream_copy(void* destination, const void* source, std::size_t size_bytes) {
  std::memcpy(destination, source, size_bytes);
}

void end_streaming() {}

#endif

}  // namespace lockstep::host
