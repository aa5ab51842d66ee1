#include "host/processes/slot_ring.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::host {
namespace {

constexpr std::int64_t kLine = 64;

// So that what one rank writes and another reads stays in the cores' second-level caches.
constexpr std::int64_t kChunkBytes = 128 << 10;

std::int64_t chunk_bytes_for(std::int64_t num_ranks) {
  const std::int64_t lines = std::max(kChunkBytes / kLine / num_ranks, std::int64_t{1});
  return lines * num_ranks * kLine;
}
std::int64_t slot_bytes_for(std::int64_t num_ranks) {
  const std::int64_t chunk = chunk_bytes_for(num_ranks);
  return kLine + chunk + chunk / num_ranks;
}

}  // namespace

std::vector<std::size_t> SlotRing::part_bytes(std::span<const int> num_ranks) {
  const std::int64_t total = std::accumulate(num_ranks.begin(), num_ranks.end(), std::int64_t{0});
  std::vector<std::size_t> bytes;
  for (const int own : num_ranks)
    bytes.push_back(static_cast<std::size_t>(own) * kNumSlots *
                    static_cast<std::size_t>(slot_bytes_for(total)));
  return bytes;
}

SlotRing::SlotRing(std::shared_ptr<detail::SharedSegment> segment, std::span<const int> num_ranks)
    : segment_(std::move(segment)),
      parking_(*reinterpret_cast<detail::SharedParking*>(segment_->common().data())) {
  const std::int64_t total = std::accumulate(num_ranks.begin(), num_ranks.end(), std::int64_t{0});
  states_ = std::vector<State>(static_cast<std::size_t>(total));
  chunk_bytes_ = chunk_bytes_for(total);
  slot_bytes_ = static_cast<std::size_t>(slot_bytes_for(total));
  for (std::size_t process = 0; process < num_ranks.size(); ++process) {
    std::byte* first = segment_->part(static_cast<int>(process)).data();
    for (int rank = 0; rank < num_ranks[process]; ++rank, first += kNumSlots * slot_bytes_)
      first_slots_.push_back(first);
  }
}

}  // namespace lockstep::host
