#include "host/collectives/copy_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

void HostCommunicator::broadcast(const backend::GroupCall& group) {
  const auto root = static_cast<std::size_t>(group.root);
  const std::span<const backend::Segment> batch = group.calls[root].segments;
  const bool streaming = streaming_pays((num_ranks() + 1) * total_bytes(batch));
  share(
      group, batch.size(), [&](std::size_t s) { return bytes_of(batch[s]); },
      [&](std::size_t s, std::int64_t begin, std::int64_t end) {
        const Rank& here = locate(group, s, begin);
        copy_range(here.sources[root], end - begin, here.destinations, streaming);
      });
}

}  // namespace lockstep::host
