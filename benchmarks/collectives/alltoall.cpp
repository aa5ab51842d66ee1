#include "collectives/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {

const Collective kAllToAll{
    .name = "alltoall",
    .bus_formula = "(n-1)/n",
    .has_in_place = false,
    .counts =
        [](std::int64_t elements, int num_ranks, std::int64_t element_bytes) {
          const std::int64_t part = part_of(elements, num_ranks, element_bytes);
          return Counts{.send = part * num_ranks, .receive = part * num_ranks, .argument = part};
        },
    .bus_factor = gather_bus_factor,
    .transfers =
        [](const Counts& counts, int num_ranks, int) {
          std::vector<Transfer> transfers;
          for (int source = 0; source < num_ranks; ++source)
            for (int destination = 0; destination < num_ranks; ++destination)
              transfers.push_back({.source = source,
                                   .destination = destination,
                                   .source_begin = destination * counts.argument,
                                   .destination_begin = source * counts.argument,
                                   .count = counts.argument});
          return transfers;
        },
    .run = [](Communicator& communicator, const Counts& /*counts*/, ReduceOp /*op*/, int /*root*/,
              std::span<const RankBatch> batches,
              const CommunicationOptions& options) { communicator.all_to_all(batches, options); },
};

}  // namespace lockstep::bench
