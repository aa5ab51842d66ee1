#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

void HostCommunicator::all_reduce(const backend::GroupCall& group) {
  const std::span<const backend::Segment> batch = group.calls.front().segments;
  const bool streaming = streaming_pays(2 * num_ranks() * total_bytes(batch));
  share(
      group, batch.size(), [&](std::size_t s) { return bytes_of(batch[s]); },
      [&](std::size_t s, std::int64_t begin, std::int64_t end) {
        const Rank& here = locate(group, s, begin);
        const std::int64_t count = (end - begin) / static_cast<std::int64_t>(size_of(batch[s].dtype));
        reduce_range(group.op, batch[s].dtype, count, here.sources, here.destinations, streaming);
      });
}

}  // namespace lockstep::host
