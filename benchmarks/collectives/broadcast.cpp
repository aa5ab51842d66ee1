#include "collectives/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {

const Collective kBroadcast{
    .name = "broadcast",
    .bus_formula = "1",
    .has_root = true,
    .only_root_sends = true,
    .counts =
        [](std::int64_t elements, int, std::int64_t) {
          return Counts{.send = elements, .receive = elements, .argument = elements};
        },
    .bus_factor = rooted_bus_factor,
    .transfers = [](const Counts& counts, int,
                    int root) { return std::vector{Transfer{.source = root, .count = counts.send}}; },
    .run = [](Communicator& communicator, const Counts& /*counts*/, ReduceOp /*op*/, int root,
              std::span<const RankBatch> batches,
              const CommunicationOptions& options) { communicator.broadcast(root, batches, options); },
};

}  // namespace lockstep::bench
