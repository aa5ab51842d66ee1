#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

// The pieces are the data that each rank receives of each segment.
void HostCommunicator::reduce_scatter(const backend::GroupCall& group) {
  const auto n = ranks_.size();
  const std::span<const backend::Segment> batch = group.calls.front().segments;
  const bool streaming = streaming_pays(num_ranks() * (num_ranks() + 1) * total_bytes(batch));
  share(
      group, batch.size() * n, [&](std::size_t piece) { return bytes_of(batch[piece / n]); },
      [&](std::size_t piece, std::int64_t begin, std::int64_t end) {
        const std::size_t s = piece / n;
        const auto receiver = piece % n;
        const Rank& here = locate(group, s, static_cast<std::int64_t>(receiver) * bytes_of(batch[s]) + begin);
        void* destination = static_cast<std::byte*>(group.calls[receiver].segments[s].receive) + begin;
        const std::int64_t count = (end - begin) / static_cast<std::int64_t>(size_of(batch[s].dtype));
        reduce_range(group.op, batch[s].dtype, count, here.sources, std::span(&destination, 1), streaming);
      });
}

}  // namespace lockstep::host
