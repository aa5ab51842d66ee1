#include "host/host_communicator.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "host/collectives/streaming.hpp"
namespace lockstep::host {

HostCommunicator::HostCommunicator(int num_ranks) : ranks_(static_cast<std::size_t>(num_ranks)) {
  for (Rank& rank : ranks_) {
    rank.sources.resize(ranks_.size());
    rank.destinations.resize(ranks_.size());
  }
}

std::uint64_t HostCommunicator::begin(const backend::GroupCall& group) {
  std::uint64_t number = 0;
  for (const backend::RankCall& call : group.own)
    number = ++ranks_[static_cast<std::size_t>(call.rank)].num_collectives;
  return number;
}

const HostCommunicator::Rank& HostCommunicator::locate(const backend::GroupCall& group, std::size_t s,
                                                       std::int64_t begin_bytes) {
  Rank& scratch = ranks_[static_cast<std::size_t>(group.own.front().rank)];
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const backend::Segment& segment = group.calls[i].segments[s];
    const auto at = [&](auto* data) { return data == nullptr ? nullptr : data + begin_bytes; };
    scratch.sources[i] = at(static_cast<const std::byte*>(segment.send));
    scratch.destinations[i] = at(static_cast<std::byte*>(segment.receive));
  }
  return scratch;
}

std::unique_ptr<backend::CommunicatorBackend> make_host_communicator(int num_ranks) {
  return std::make_unique<HostCommunicator>(num_ranks);
}

}  // namespace lockstep::host
