#include "collectives/transfers.hpp"

#include "collectives/collective_checks.hpp"

namespace lockstep::detail {

void find_transfers(std::span<const Arrival* const> arrivals, std::vector<backend::Transfer>& transfers) {
  transfers.clear();
  const CollectiveCall& first = call_of(arrivals.front());
  if (!first.is_transfers()) return;
  const int num_ranks = static_cast<int>(arrivals.size());
  const std::size_t num_tensors =
      call_of(arrivals[static_cast<std::size_t>(first.reference())]).tensors().size();
  const auto add = [&](const backend::Transfer& transfer) {
    if (transfer.size_bytes > 0) transfers.push_back(transfer);
  };
  for (std::size_t i = 0; i < num_tensors; ++i) {
    std::int64_t gathered_bytes = 0;
    for (int source = 0; source < num_ranks; ++source) {
      const CollectiveCall& call = call_of(arrivals[static_cast<std::size_t>(source)]);
      if (!call.sends()) continue;
      const std::int64_t size = call.batch->inputs[i].nbytes();
      if (call.collective == Collective::gather) {
        add({i, source, call.root, 0, gathered_bytes, size});
        gathered_bytes += size;
      } else if (call.collective == Collective::send_recv) {
        add({i, source, call.destinations[static_cast<std::size_t>(source)], 0, 0, size});
      } else {
        const std::int64_t part = size / num_ranks;
        const std::int64_t place = call.collective == Collective::all_to_all ? source * part : 0;
        for (int destination = 0; destination < num_ranks; ++destination)
          add({i, source, destination, destination * part, place, part});
      }
    }
  }
}

}  // namespace lockstep::detail
