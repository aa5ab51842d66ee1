#include "collectives/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {

const Collective kAllReduce{
    .name = "all_reduce",
    .bus_formula = "2(n-1)/n",
    .reduces = true,
    .counts =
        [](std::int64_t elements, int, std::int64_t) {
          return Counts{.send = elements, .receive = elements, .argument = elements};
        },
    .bus_factor = all_reduce_bus_factor,
    .transfers = [](const Counts& counts, int, int) { return std::vector{Transfer{.count = counts.send}}; },
    .run = [](Communicator& communicator, const Counts& /*counts*/, ReduceOp op, int /*root*/,
              std::span<const RankBatch> batches,
              const CommunicationOptions& options) { communicator.all_reduce(op, batches, options); },
};

}  // namespace lockstep::bench
