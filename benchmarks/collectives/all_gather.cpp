#include "collectives/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {

const Collective kAllGather{
    .name = "all_gather",
    .bus_formula = "(n-1)/n",
    .counts =
        [](std::int64_t elements, int num_ranks, std::int64_t element_bytes) {
          const std::int64_t part = part_of(elements, num_ranks, element_bytes);
          return Counts{
              .send = part, .receive = part * num_ranks, .argument = part, .in_place_send_step = part};
        },
    .bus_factor = gather_bus_factor,
    .transfers =
        [](const Counts& counts, int num_ranks, int) {
          std::vector<Transfer> transfers;
          for (int rank = 0; rank < num_ranks; ++rank)
            transfers.push_back(
                {.source = rank, .destination_begin = rank * counts.send, .count = counts.send});
          return transfers;
        },
    .run = [](Communicator& communicator, const Counts& /*counts*/, ReduceOp /*op*/, int /*root*/,
              std::span<const RankBatch> batches,
              const CommunicationOptions& options) { communicator.all_gather(batches, options); },
};

}  // namespace lockstep::bench
