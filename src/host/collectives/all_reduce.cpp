#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

void HostCommunicator::all_reduce(std::span<const backend::RankCall> calls, ReduceOp op) {
  run("all_reduce", calls, [&](int rank) {
    const std::span<const backend::Segment> batch = segments(rank);
    const bool streaming = streaming_pays(2 * num_ranks() * total_bytes(batch));
    const Rank& here = ranks_[static_cast<std::size_t>(rank)];
    for_each_part(
        batch.size(), [&](std::size_t s) { return bytes_of(batch[s]); }, rank, num_ranks(),
        [&](std::size_t s, std::int64_t begin, std::int64_t end) {
          locate(rank, s, begin);
          const std::int64_t count = (end - begin) / static_cast<std::int64_t>(size_of(batch[s].dtype));
          reduce_range(op, batch[s].dtype, count, here.sources, here.destinations, streaming);
        });
  });
}

}  // namespace lockstep::host
