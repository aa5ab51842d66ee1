#include "collectives/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {

const Collective kGather{
    .name = "gather",
    .bus_formula = "(n-1)/n",
    .has_root = true,
    .only_root_receives = true,
    .counts =
        [](std::int64_t elements, int num_ranks, std::int64_t element_bytes) {
          const std::int64_t part = part_of(elements, num_ranks, element_bytes);
          return Counts{
              .send = part, .receive = part * num_ranks, .argument = part, .in_place_send_step = part};
        },
    .bus_factor = gather_bus_factor,
    .transfers =
        [](const Counts& counts, int num_ranks, int root) {
          std::vector<Transfer> transfers;
          for (int rank = 0; rank < num_ranks; ++rank)
            transfers.push_back({.source = rank,
                                 .destination = root,
                                 .destination_begin = rank * counts.send,
                                 .count = counts.send});
          return transfers;
        },
    .run = [](Communicator& communicator, const Counts& /*counts*/, ReduceOp /*op*/, int root,
              std::span<const RankBatch> batches,
              const CommunicationOptions& options) { communicator.gather(root, batches, options); },
};

}  // namespace lockstep::bench
