#include <lockstep/error.hpp>

#include "communicators/nccl_communicator.hpp"
#include "detail/expects.hpp"

/// By which path an all_reduce between GPUs goes.
namespace lockstep::cuda {

NcclCommunicator::Choice NcclCommunicator::choose(std::int64_t size_bytes, std::size_t num_tensors,
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
  if (num_tensors > kMostTensors) return {false, "the batch has many tensors"};
  const bool is_short = size_bytes <= (route.peer_bytes < 0 ? peer_bytes_ : route.peer_bytes);
  return {is_short, is_short ? "no longer than peer_bytes" : "longer than peer_bytes"};
}

bool NcclCommunicator::goes_by_peers(const backend::GroupCall& collective) const {
  const std::span<const backend::Segment> batch = collective.own.front().segments;
  std::int64_t size_bytes = 0;
  for (const backend::Segment& segment : batch) size_bytes += bytes_of(segment);
  return choose(size_bytes, batch.size(), collective.route).is_peer;
}

CommunicationPlan NcclCommunicator::plan(ReduceOp op, DType dtype, std::int64_t count, int num_tensors,
                                         const backend::Route& route) const {
  const std::int64_t plain = count * static_cast<std::int64_t>(size_of(dtype));
  const Choice choice = choose(num_tensors * plain, static_cast<std::size_t>(num_tensors), route);
  CommunicationPlan plan;
  if (choice.is_peer) {
    plan = peers_->plan(dtype, count);
    plan.bytes_read *= num_tensors;
    plan.bytes_written *= num_tensors;
    plan.num_launches *= num_tensors;
  } else {
    const Coding coding = coding_of({.op = op, .scale = scale_, .divisor = num_ranks_ * scale_}, dtype);
    const std::int64_t wire = count * size_of_native(coding.type);
    const std::int64_t packed = Wire::num_packed(wire, num_tensors), single = num_tensors - packed;
    const bool encodes = coding.encode.conversion != Conversion::none;
    const bool decodes = coding.decode.conversion != Conversion::none;
    const std::int64_t pack = packed * Wire::packed_bytes(wire);  // NCCL has the gaps, too
    plan.path = CommunicationPath::nccl;
    plan.in_rank_order = false;
    plan.bytes_read =
        pack + packed * (plain + wire) + single * (wire + (encodes ? plain : 0) + (decodes ? wire : 0));
    plan.bytes_written =
        pack + packed * (wire + plain) + single * (wire + (encodes ? wire : 0) + (decodes ? plain : 0));
    const auto num_calls = static_cast<int>(single + (packed > 0 ? 1 : 0));
    plan.num_launches = (num_calls + (encodes || packed > 0 ? 1 : 0) + (decodes || packed > 0 ? 1 : 0)) *
                        static_cast<int>(ranks_.size());
    plan.in_window = packed > 0 && has_windows_;
    plan.memory = plan.in_window ? "in a symmetric window"
                  : has_windows_ ? "in plain memory, as it is not packed"
                                 : no_windows_;
  }
  plan.reason = choice.reason;
  return plan;
}

}  // namespace lockstep::cuda
