#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

void HostCommunicator::reduce(std::span<const backend::RankCall> calls, ReduceOp op, int root) {
  publish("reduce", calls);
  const int rank = calls.front().rank;
  const std::span<const backend::Segment> batch = segments(rank);
  const bool streaming = streaming_pays((num_ranks() + 1) * total_bytes(batch));
  share(
      calls, batch.size(), [&](std::size_t s) { return bytes_of(batch[s]); },
      [&](std::size_t s, std::int64_t begin, std::int64_t end) {
        const Rank& here = locate(rank, s, begin);
        const std::int64_t count = (end - begin) / static_cast<std::int64_t>(size_of(batch[s].dtype));
        const std::span destination(&here.destinations[static_cast<std::size_t>(root)], 1);
        reduce_range(op, batch[s].dtype, count, here.sources, destination, streaming);
      });
  finish(calls);
}

}  // namespace lockstep::host
