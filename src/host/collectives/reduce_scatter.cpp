#include "host/collectives/reduce_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

// Each thread makes what its own rank receives.
void HostCommunicator::reduce_scatter(std::span<const backend::RankCall> calls, ReduceOp op) {
  run("reduce_scatter", calls, [&](int rank) {
    const std::span<const backend::Segment> batch = segments(rank);
    const bool streaming = streaming_pays(num_ranks() * (num_ranks() + 1) * total_bytes(batch));
    Rank& here = ranks_[static_cast<std::size_t>(rank)];
    for (std::size_t s = 0; s < batch.size(); ++s) {
      const std::int64_t begin = rank * bytes_of(batch[s]);
      for (int i = 0; i < num_ranks(); ++i) {
        here.sources[static_cast<std::size_t>(i)] =
            static_cast<const std::byte*>(segments(i)[s].send) + begin;
      }
      reduce_range(op, batch[s].dtype, batch[s].count, here.sources, std::span(&batch[s].receive, 1),
                   streaming);
    }
  });
}

}  // namespace lockstep::host
