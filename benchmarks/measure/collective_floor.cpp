#include "measure/collective_floor.hpp"

#include <numeric>
#include <utility>

namespace lockstep::bench {

CollectiveFloor::CollectiveFloor(const Collective& collective, std::span<const Group> groups,
                                 std::span<const RankBuffers> ranks, const Layout& layout)
    : layout_(layout), traffic_bytes_(ranks.size()) {
  const std::int64_t element = layout.element_bytes();
  for (const Group& group : groups) {
    for (const Transfer& transfer : collective.transfers(layout.counts, group.num_ranks(), layout.root)) {
      Piece piece{{}, {}, transfer.count * element};
      std::vector<int> readers, writers;
      for (const int rank : group.ranks) {
        const RankBuffers& buffers = ranks[static_cast<std::size_t>(rank)];
        std::byte* const input = layout.send_buffer(buffers) + transfer.source_begin * element;
        std::byte* const output = layout.receive_buffer(buffers) + transfer.destination_begin * element;
        const bool is_source = transfer.source == buffers.rank_in_group;
        if (is_source || transfer.source == kAllRanks) {
          piece.inputs.push_back(input);
          readers.push_back(rank);
        }
        const bool receives =
            transfer.destination == kAllRanks || transfer.destination == buffers.rank_in_group;
        if (!receives || (is_source && input == output)) continue;
        piece.outputs.push_back(output);
        writers.push_back(rank);
      }
      if (piece.outputs.empty()) continue;
      for (const auto& movers : {readers, writers})
        for (const int rank : movers) traffic_bytes_[static_cast<std::size_t>(rank)] += piece.size_bytes;
      pieces_.push_back(std::move(piece));
    }
  }
}

void CollectiveFloor::pass(FloorLoop loop, std::int64_t operation, int thread, int num_threads) const {
  constexpr std::int64_t kCacheLine = 64;
  const std::int64_t offset = layout_.slot_offset(operation);
  for (const auto& [inputs, outputs, size_bytes] : pieces_) {
    const auto [begin, end] = slice_of(size_bytes, thread, num_threads, kCacheLine);
    floor_pass(loop, inputs, outputs, offset + begin, offset + end);
  }
}

void CollectiveFloor::copy(const Replica& replica, std::int64_t operation) const {
  const std::int64_t offset = layout_.slot_offset(operation);
  replica.copy(replica.receive + offset, replica.send + offset, copied_bytes(replica.rank));
}

std::int64_t CollectiveFloor::traffic_bytes() const {
  return std::accumulate(traffic_bytes_.begin(), traffic_bytes_.end(), std::int64_t{0});
}

Slice slice_of(std::int64_t size, int thread, int num_threads, std::int64_t granularity) {
  const auto bound = [&](int t) {
    return t == num_threads ? size : size / num_threads * t / granularity * granularity;
  };
  return {bound(thread), bound(thread + 1)};
}

}  // namespace lockstep::bench
