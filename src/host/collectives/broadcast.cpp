#include "host/collectives/copy_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

void HostCommunicator::broadcast(std::span<const backend::RankCall> calls, int root) {
  publish("broadcast", calls);
  const int rank = calls.front().rank;
  const std::span<const backend::Segment> batch = segments(root);
  const bool streaming = streaming_pays((num_ranks() + 1) * total_bytes(batch));
  share(
      calls, batch.size(), [&](std::size_t s) { return bytes_of(batch[s]); },
      [&](std::size_t s, std::int64_t begin, std::int64_t end) {
        const Rank& here = locate(rank, s, begin);
        copy_range(here.sources[static_cast<std::size_t>(root)], end - begin, here.destinations, streaming);
      });
  finish(calls);
}

}  // namespace lockstep::host
