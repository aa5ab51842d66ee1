#include "host/collectives/copy_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

void HostCommunicator::broadcast(std::span<const backend::RankCall> calls, int root) {
  run("broadcast", calls, [&](int rank) {
    const std::span<const backend::Segment> batch = segments(root);
    const bool streaming = streaming_pays((num_ranks() + 1) * total_bytes(batch));
    const Rank& here = ranks_[static_cast<std::size_t>(rank)];
    for_each_part(
        batch.size(), [&](std::size_t s) { return bytes_of(batch[s]); }, rank, num_ranks(),
        [&](std::size_t s, std::int64_t begin, std::int64_t end) {
          locate(rank, s, begin);
          copy_range(here.sources[static_cast<std::size_t>(root)], end - begin, here.destinations, streaming);
        });
  });
}

}  // namespace lockstep::host
