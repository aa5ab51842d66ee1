#include "bandwidth.hpp"
#include "collectives/table.hpp"

namespace lockstep::bench {

const Collective kAllReduce{
    .name = "all_reduce",
    .bus_formula = "2(n-1)/n",
    .reduces = true,
    .counts =
        [](std::int64_t elements, int) {
          return Counts{elements, elements, elements};
        },
    .bus_factor = all_reduce_bus_factor,
    .fill_input = fill_contribution,
    .count_wrong = count_wrong,
    .run = [](Communicator& communicator, ReduceOp op, int /*root*/, std::span<const RankBatch> batches,
              const CommunicationOptions& options) { communicator.all_reduce(op, batches, options); },
};

}  // namespace lockstep::bench
