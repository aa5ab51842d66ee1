#include <ostream>

#include <lockstep/communication.hpp>

#include "detail/concat.hpp"

namespace lockstep {

std::string_view to_string(CommunicationPath path) noexcept {
  switch (path) {
    case CommunicationPath::shared_memory: return "shared memory";
    case CommunicationPath::with_meeting: return "the ranks' meeting";
    case CommunicationPath::processes: return "between processes";
    case CommunicationPath::one_gpu: return "a kernel on one GPU";
    case CommunicationPath::peer_one_shot: return "peer memory, one shot";
    case CommunicationPath::peer_two_shot: return "peer memory, two shots";
    case CommunicationPath::nccl: return "NCCL";
    case CommunicationPath::nccl_in_order: break;
  }
  return "NCCL's all_gather, combined in rank order";
}

std::ostream& operator<<(std::ostream& out, CommunicationPath path) { return out << to_string(path); }

std::string CommunicationPlan::to_string() const {
  const bool is_batch = num_tensors > 1;
  const std::string what = is_batch ? detail::concat(num_tensors, " tensors, ", size_bytes, " bytes,")
                                    : detail::concat(size_bytes, " bytes of ", dtype);
  const std::string packs = is_batch ? detail::concat(", in ", num_packs, " packs") : "";
  return detail::concat("all_reduce(", op, ") of ", what, " over ", num_ranks, " ranks: ", path,
                        memory.empty() ? "" : ", ", memory, " (", reason, ")", packs, "; each rank reads ",
                        bytes_read, " and writes ", bytes_written, " bytes, ", num_launches, " launches",
                        in_rank_order ? ", in rank order" : "");
}

std::ostream& operator<<(std::ostream& out, const CommunicationPlan& plan) { return out << plan.to_string(); }

}  // namespace lockstep
