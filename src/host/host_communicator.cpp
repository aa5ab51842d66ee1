#include "host/host_communicator.hpp"

#include <lockstep/error.hpp>

#include "host/collectives/streaming.hpp"

namespace lockstep::host {

HostCommunicator::HostCommunicator(int num_ranks)
    : ranks_(static_cast<std::size_t>(num_ranks)), published_(num_ranks), finished_(num_ranks) {
  for (Rank& rank : ranks_) {
    rank.sources.resize(ranks_.size());
    rank.destinations.resize(ranks_.size());
  }
}

void HostCommunicator::publish(std::string_view operation, std::span<const backend::RankCall> calls) {
  for (const backend::RankCall& call : calls) {
    Rank& rank = ranks_[static_cast<std::size_t>(call.rank)];
    rank.call = &call;
    rank.next_chunk.store(0, std::memory_order_relaxed);
  }
  const bool alone = calls.size() == ranks_.size();
  const bool passed =
      alone ? !published_.has_failed() : published_.arrive_and_wait(static_cast<int>(calls.size()));
  LOCKSTEP_EXPECTS(passed, CollectiveAborted, operation, " on rank ", calls.front().rank, " of ",
                   ranks_.size(), " host ranks: the communicator was aborted. Make a new one.");
}

void HostCommunicator::finish(std::span<const backend::RankCall> calls) {
  end_streaming();
  if (calls.size() < ranks_.size()) finished_.arrive_and_wait(static_cast<int>(calls.size()));
}

const HostCommunicator::Rank& HostCommunicator::locate(int rank, std::size_t s, std::int64_t begin_bytes) {
  Rank& scratch = ranks_[static_cast<std::size_t>(rank)];
  for (int i = 0; i < num_ranks(); ++i) {
    const backend::Segment& segment = segments(i)[s];
    const auto at = [&](auto* data) { return data == nullptr ? nullptr : data + begin_bytes; };
    scratch.sources[static_cast<std::size_t>(i)] = at(static_cast<const std::byte*>(segment.send));
    scratch.destinations[static_cast<std::size_t>(i)] = at(static_cast<std::byte*>(segment.receive));
  }
  return scratch;
}

std::unique_ptr<backend::CommunicatorBackend> make_host_communicator(int num_ranks) {
  return std::make_unique<HostCommunicator>(num_ranks);
}

}  // namespace lockstep::host
