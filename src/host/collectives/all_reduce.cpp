#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

void HostCommunicator::all_reduce(std::span<const backend::RankCall> calls, ReduceOp op) {
  publish("all_reduce", calls);
  const int rank = calls.front().rank;
  const std::span<const backend::Segment> batch = segments(rank);
  const bool streaming = streaming_pays(2 * num_ranks() * total_bytes(batch));
  share(
      calls, batch.size(), [&](std::size_t s) { return bytes_of(batch[s]); },
      [&](std::size_t s, std::int64_t begin, std::int64_t end) {
        const Rank& here = locate(rank, s, begin);
        const std::int64_t count = (end - begin) / static_cast<std::int64_t>(size_of(batch[s].dtype));
        reduce_range(op, batch[s].dtype, count, here.sources, here.destinations, streaming);
      });
  finish(calls);
}

}  // namespace lockstep::host
