#include "host/collectives/copy_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

void HostCommunicator::transfer(const backend::GroupCall& group) {
  const std::span<const backend::Transfer> transfers = group.transfers;
  const auto segments_of = [&](int rank) { return group.calls[static_cast<std::size_t>(rank)].segments; };
  std::int64_t total = 0;
  for (const backend::Transfer& transfer : transfers) total += transfer.size_bytes;
  const bool streaming = streaming_pays(2 * total);
  share(
      group, transfers.size(), [&](std::size_t piece) { return transfers[piece].size_bytes; },
      [&](std::size_t piece, std::int64_t begin, std::int64_t end) {
        const backend::Transfer& transfer = transfers[piece];
        const void* const send = segments_of(transfer.source)[transfer.segment].send;
        void* const receive = segments_of(transfer.destination)[transfer.segment].receive;
        void* const destination = static_cast<std::byte*>(receive) + transfer.receive_begin_bytes + begin;
        copy_range(static_cast<const std::byte*>(send) + transfer.send_begin_bytes + begin, end - begin,
                   {&destination, 1}, streaming);
      });
}

}  // namespace lockstep::host
