#include "host/collectives/copy_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

// The pieces are the data that each rank sends of each segment; a thread copies its slice of them to all
// ranks.
void HostCommunicator::all_gather(const backend::GroupCall& group) {
  const auto n = ranks_.size();
  const auto sent = [&](std::size_t piece) -> const backend::Segment& {
    return group.calls[piece % n].segments[piece / n];
  };
  const std::size_t num_pieces = group.calls.front().segments.size() * n;
  std::int64_t gathered_bytes = 0;
  for (std::size_t piece = 0; piece < num_pieces; ++piece) gathered_bytes += bytes_of(sent(piece));
  const bool streaming = streaming_pays((num_ranks() + 1) * gathered_bytes);

  share(
      group, num_pieces, [&](std::size_t piece) { return bytes_of(sent(piece)); },
      [&](std::size_t piece, std::int64_t begin, std::int64_t end) {
        std::int64_t offset = begin;  // offset in the destinations, after the data of lower ranks
        for (std::size_t before = piece - piece % n; before < piece; ++before)
          offset += bytes_of(sent(before));
        const Rank& here = locate(group, piece / n, offset);
        copy_range(static_cast<const std::byte*>(sent(piece).send) + begin, end - begin, here.destinations,
                   streaming);
      });
}

}  // namespace lockstep::host
