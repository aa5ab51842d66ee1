#include "host/collectives/copy_range.hpp"
#include "host/collectives/slices.hpp"
#include "host/collectives/streaming.hpp"
#include "host/host_communicator.hpp"

namespace lockstep::host {

void HostCommunicator::transfer(std::string_view operation, std::span<const backend::RankCall> calls,
                                std::span<const backend::Transfer> transfers) {
  publish(operation, calls);
  std::int64_t total = 0;
  for (const backend::Transfer& transfer : transfers) total += transfer.size_bytes;
  const bool streaming = streaming_pays(2 * total);
  share(
      calls, transfers.size(), [&](std::size_t piece) { return transfers[piece].size_bytes; },
      [&](std::size_t piece, std::int64_t begin, std::int64_t end) {
        const backend::Transfer& transfer = transfers[piece];
        const void* const send = segments(transfer.source)[transfer.segment].send;
        void* const receive = segments(transfer.destination)[transfer.segment].receive;
        void* const destination = static_cast<std::byte*>(receive) + transfer.receive_begin_bytes + begin;
        copy_range(static_cast<const std::byte*>(send) + transfer.send_begin_bytes + begin, end - begin,
                   {&destination, 1}, streaming);
      });
  finish(calls);
}

}  // namespace lockstep::host
