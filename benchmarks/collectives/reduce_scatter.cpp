#include "collectives/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {

const Collective kReduceScatter{
    .name = "reduce_scatter",
    .bus_formula = "(n-1)/n",
    .reduces = true,
    .counts =
        [](std::int64_t elements, int num_ranks, std::int64_t element_bytes) {
          const std::int64_t part = part_of(elements, num_ranks, element_bytes);
          return Counts{
              .send = part * num_ranks, .receive = part, .argument = part, .in_place_receive_step = part};
        },
    .bus_factor = gather_bus_factor,
    .transfers =
        [](const Counts& counts, int num_ranks, int) {
          std::vector<Transfer> transfers;
          for (int rank = 0; rank < num_ranks; ++rank)
            transfers.push_back(
                {.destination = rank, .source_begin = rank * counts.receive, .count = counts.receive});
          return transfers;
        },
    .run = [](Communicator& communicator, const Counts& /*counts*/, ReduceOp op, int /*root*/,
              std::span<const RankBatch> batches,
              const CommunicationOptions& options) { communicator.reduce_scatter(op, batches, options); },
};

}  // namespace lockstep::bench
