#include <lockstep/error.hpp>

#include "communicators/nccl_communicator.hpp"
#include "detail/expects.hpp"

/// By which path an all_reduce between GPUs goes.
namespace lockstep::cuda {

NcclCommunicator::Choice NcclCommunicator::choose(std::span<const backend::Segment> batch,
                                                  const backend::Route& route) const {
  using enum CommunicationImplementation;
  LOCKSTEP_EXPECTS(route.implementation != peer || peers_ != nullptr, Unsupported,
                   "all_reduce or reduce between ", num_ranks_, " GPUs, the first ",
                   ranks_.front().device->device(), ": the options ask for peer memory, but ", no_peers_,
                   ". Leave CommunicationOptions::implementation out, or pass nccl.");
  if (route.implementation == nccl) return {false, "the option is nccl"};
  if (peers_ == nullptr) return {false, no_peers_};
  if (route.implementation == peer) return {true, "the option is peer"};
  if (route.in_rank_order) return {true, "the option is deterministic"};
  constexpr std::size_t kMostTensors = 8;
  if (batch.size() > kMostTensors) return {false, "the batch has many tensors"};
  std::int64_t size_bytes = 0;
  for (const backend::Segment& segment : batch) size_bytes += bytes_of(segment);
  const bool is_short = size_bytes <= (route.peer_bytes < 0 ? peer_bytes_ : route.peer_bytes);
  return {is_short, is_short ? "no longer than peer_bytes" : "longer than peer_bytes"};
}

bool NcclCommunicator::goes_by_peers(const backend::GroupCall& collective) const {
  return choose(collective.own.front().segments, collective.route).is_peer;
}

CommunicationPlan NcclCommunicator::plan(ReduceOp op, std::span<const backend::Segment> batch,
                                         const backend::Route& route) const {
  const Choice choice = choose(batch, route);
  if (choice.is_peer) return peers_->plan(batch, choice.reason);
  CommunicationPlan plan = Wire::plan({.operation = "all_reduce",
                                       .native_call = "ncclAllReduce",
                                       .op = op,
                                       .scale = scale_,
                                       .divisor = num_ranks_ * scale_},
                                      batch);
  plan.path = CommunicationPath::nccl;
  plan.in_window = plan.in_window && has_windows_;
  plan.memory = plan.in_window ? "in a symmetric window"
                : has_windows_ ? "in plain memory, as it is not packed"
                               : no_windows_;
  plan.reason = choice.reason;
  plan.in_rank_order = false;
  plan.num_launches *= static_cast<int>(ranks_.size());
  return plan;
}

}  // namespace lockstep::cuda
