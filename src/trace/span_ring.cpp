#include "trace/span_ring.hpp"

#include <algorithm>

namespace lockstep::detail {

void SpanRing::add(const SpanRecord& record) noexcept {
  auto* const slot = ring_.next();
  if (slot == nullptr) return;
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  const std::uint64_t length = std::min<std::uint64_t>(record.name.size(), 0xffff);
  slot->set(0, address(record.name.data()));
  slot->set(1, record.begin_ns);
  slot->set(2, record.end_ns);
  slot->set(3, record.waiting_ns);
  slot->set(4, record.bytes);
  slot->set(5, record.call);
  slot->set(6, address(record.path));
  slot->set(7, static_cast<std::uint64_t>(static_cast<std::uint32_t>(record.replica)) | length << 32 |
                   static_cast<std::uint64_t>(record.kind) << 48);
  ring_.publish();
}

std::vector<SpanRecord> SpanRing::records() const {
  const std::uint64_t end = num_added();
  const std::uint64_t begin = end > ring_.capacity() ? end - ring_.capacity() : 0;
  std::vector<SpanRecord> result;
  result.reserve(end - begin);
  for (std::uint64_t number = begin; number < end; ++number) {
    const auto& slot = ring_[number];
    const auto* const name = reinterpret_cast<const char*>(slot.get(0));
    const std::uint64_t last = slot.get(7);
    result.push_back({.name = {name, last >> 32 & 0xffff},
                      .kind = static_cast<SpanKind>(last >> 48),
                      .replica = static_cast<std::int32_t>(last & 0xffffffff),
                      .begin_ns = slot.get(1),
                      .end_ns = slot.get(2),
                      .waiting_ns = slot.get(3),
                      .bytes = slot.get(4),
                      .call = slot.get(5),
                      .path = reinterpret_cast<const char*>(slot.get(6))});
  }
  const std::uint64_t first_whole = ring_.num_overwritten();
  if (first_whole > begin)
    result.erase(result.begin(),
                 result.begin() + static_cast<std::ptrdiff_t>(std::min(first_whole, end) - begin));
  return result;
}

}  // namespace lockstep::detail
