// Compiled once for each instruction set, like reduce_range.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/collectives/streaming.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <atomic>
#include <cstring>

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <unistd.h>

#include "host/collectives/streaming.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::host {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void copy_streaming(std::uint8_t* to, const std::uint8_t* from, std::size_t size_bytes) {
  constexpr std::size_t kLine = 64;
  // Only whole lines are streamed: a partial line would be read, merged and written separately.
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kLine;
  const std::size_t head = std::min(size_bytes, (kLine - misaligned) % kLine);
  std::memcpy(to, from, head);
  std::size_t i = head;
  const hn::CappedTag<std::uint8_t, kLine> lanes;
  for (; i + kLine <= size_bytes; i += kLine)
    for (std::size_t j = i; j < i + kLine; j += hn::Lanes(lanes))
      hn::Stream(hn::LoadU(lanes, from + j), lanes, to + j);
  std::memcpy(to + i, from + i, size_bytes - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::host {
namespace {

// The number of bytes that this process may expect to find cached. A virtual machine shows its host's whole
// last-level cache, of which its cores get an unknown share: with few processors it appears as more than four
// times their second-level caches, and then it is not counted at all.
std::int64_t cached_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  const std::int64_t second = sysconf(_SC_LEVEL2_CACHE_SIZE), third = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::int64_t all_second = second * std::max<std::int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1);
  if (second > 0 && third > 4 * all_second) return all_second;
  if (std::max(second, third) > 0) return std::max(second, third);
#endif
  return std::int64_t{32} << 20;
}

}  // namespace

bool streaming_pays(std::int64_t bytes) {
  // Not a static variable: a fork would wait for ever if another thread were initialising it.
  static constinit std::atomic<std::int64_t> known{0};
  std::int64_t cached = known.load(std::memory_order_relaxed);
  if (cached == 0) known.store(cached = cached_bytes(), std::memory_order_relaxed);
  return bytes >= cached;
}

HWY_EXPORT(copy_streaming);

void stream_copy(void* destination, const void* source, std::size_t size_bytes) {
  HWY_DYNAMIC_DISPATCH(copy_streaming)
  (static_cast<std::uint8_t*>(destination), static_cast<const std::uint8_t*>(source), size_bytes);
}

void end_streaming() { hwy::FlushStream(); }

}  // namespace lockstep::host
#endif
