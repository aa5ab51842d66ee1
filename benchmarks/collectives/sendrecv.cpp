#include "collectives/table.hpp"
#include "report/bandwidth.hpp"

namespace lockstep::bench {

// Every rank sends to the next one.
const Collective kSendRecv{
    .name = "sendrecv",
    .bus_formula = "1",
    .has_in_place = false,
    .counts =
        [](std::int64_t elements, int, std::int64_t) {
          return Counts{.send = elements, .receive = elements, .argument = elements};
        },
    .bus_factor = rooted_bus_factor,
    .transfers =
        [](const Counts& counts, int num_ranks, int) {
          std::vector<Transfer> transfers;
          for (int rank = 0; rank < num_ranks; ++rank)
            transfers.push_back(
                {.source = rank, .destination = (rank + 1) % num_ranks, .count = counts.send});
          return transfers;
        },
    .run =
        [](Communicator& communicator, const Counts& /*counts*/, ReduceOp /*op*/, int /*root*/,
           std::span<const RankBatch> batches, const CommunicationOptions& options) {
          thread_local std::vector<int> destinations;
          const int num_ranks = communicator.num_ranks();
          destinations.clear();
          for (int rank = 0; rank < num_ranks; ++rank) destinations.push_back((rank + 1) % num_ranks);
          communicator.send_recv(destinations, batches, options);
        },
};

}  // namespace lockstep::bench
