#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

// The pieces are what each rank receives of each segment.
void HostCommunicator::reduce_scatter(std::span<const backend::RankCall> calls, ReduceOp op) {
  publish("reduce_scatter", calls);
  const int rank = calls.front().rank;
  const auto n = ranks_.size();
  const std::span<const backend::Segment> batch = segments(rank);
  const bool streaming = streaming_pays(num_ranks() * (num_ranks() + 1) * total_bytes(batch));
  share(
      calls, batch.size() * n, [&](std::size_t piece) { return bytes_of(batch[piece / n]); },
      [&](std::size_t piece, std::int64_t begin, std::int64_t end) {
        const std::size_t s = piece / n;
        const auto receiver = piece % n;
        const Rank& here = locate(rank, s, static_cast<std::int64_t>(receiver) * bytes_of(batch[s]) + begin);
        void* destination = static_cast<std::byte*>(segments(static_cast<int>(receiver))[s].receive) + begin;
        const std::int64_t count = (end - begin) / static_cast<std::int64_t>(size_of(batch[s].dtype));
        reduce_range(op, batch[s].dtype, count, here.sources, std::span(&destination, 1), streaming);
      });
  finish(calls);
}

}  // namespace lockstep::host
