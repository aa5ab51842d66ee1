#include "trace/span_ring.hpp"

#include <algorithm>
#include <new>

namespace lockstep::detail {

// A reader that finds a word of span n also finds that n spans were added before: words are released after
// that number. So it knows which of its copies are of one span.
void SpanRing::add(const SpanRecord& record) noexcept {
  const std::uint64_t number = num_added_.load(std::memory_order_relaxed);
  std::unique_ptr<Slot[]>& chunk = chunks_[(number & mask_) / kChunk];
  if (chunk == nullptr) chunk.reset(new (std::nothrow) Slot[kChunk]);
  if (chunk == nullptr) return;  // the span is lost
  Slot& slot = chunk[(number & mask_) % kChunk];
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  const std::uint64_t length = std::min<std::uint64_t>(record.name.size(), 0xffff);
  const std::array<std::uint64_t, 8> words{
      address(record.name.data()),
      record.begin_ns,
      record.end_ns,
      record.waiting_ns,
      record.bytes,
      record.call,
      address(record.path),
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(record.replica)) | length << 32 |
          static_cast<std::uint64_t>(record.kind) << 48};
  for (std::size_t i = 0; i < words.size(); ++i) slot[i].store(words[i], std::memory_order_release);
  num_added_.store(number + 1, std::memory_order_release);
}

std::vector<SpanRecord> SpanRing::records() const {
  const std::uint64_t capacity = mask_ + 1;
  const std::uint64_t end = num_added();
  const std::uint64_t begin = end > capacity ? end - capacity : 0;
  std::vector<SpanRecord> result;
  result.reserve(end - begin);
  for (std::uint64_t number = begin; number < end; ++number) {
    std::array<std::uint64_t, 8> words{};
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = slot(number)[i].load(std::memory_order_acquire);
    const auto* const name = reinterpret_cast<const char*>(words[0]);
    result.push_back({.name = {name, words[7] >> 32 & 0xffff},
                      .kind = static_cast<SpanKind>(words[7] >> 48),
                      .replica = static_cast<std::int32_t>(words[7] & 0xffffffff),
                      .begin_ns = words[1],
                      .end_ns = words[2],
                      .waiting_ns = words[3],
                      .bytes = words[4],
                      .call = words[5],
                      .path = reinterpret_cast<const char*>(words[6])});
  }
  // The thread may be writing one more.
  const std::uint64_t newest = num_added() + 1;
  const std::uint64_t first_whole = newest > capacity ? newest - capacity : 0;
  if (first_whole > begin)
    result.erase(result.begin(),
                 result.begin() + static_cast<std::ptrdiff_t>(std::min(first_whole, end) - begin));
  return result;
}

}  // namespace lockstep::detail
