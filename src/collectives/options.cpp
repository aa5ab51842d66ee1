#include <lockstep/collectives/options.hpp>
#include <lockstep/error.hpp>

#include "ascii.hpp"
#include "detail/expects.hpp"

namespace lockstep {
namespace {

void validate(const CommunicationOptions& options) {
  LOCKSTEP_EXPECTS(options.bytes_per_pack >= 0, InvalidArgument, "CommunicationOptions: bytes_per_pack is ",
                   options.bytes_per_pack, ". Pass at least 0, which is automatic.");
  LOCKSTEP_EXPECTS(options.timeout.count() >= 0, InvalidArgument, "CommunicationOptions: timeout is ",
                   options.timeout.count(), " ms. Pass at least 0, which is no limit.");
  LOCKSTEP_EXPECTS(options.peer_bytes >= 0, InvalidArgument, "CommunicationOptions: peer_bytes is ",
                   options.peer_bytes,
                   ". Pass at least 0, with which the library's own kernels carry nothing.");
  const CommunicatorConfig& made = options.communicator;
  constexpr std::size_t kLongestName = 63;
  LOCKSTEP_EXPECTS(made.name.size() <= kLongestName, InvalidArgument, "CommunicatorConfig: name has ",
                   made.name.size(), " characters. Pass ", kLongestName, " at most.");
  constexpr int kMostCtas = 64;  // NCCL's MAXCHANNELS
  LOCKSTEP_EXPECTS(
      0 <= made.min_ctas && made.min_ctas <= kMostCtas && 0 <= made.max_ctas && made.max_ctas <= kMostCtas,
      InvalidArgument, "CommunicatorConfig: min_ctas is ", made.min_ctas, " and max_ctas is ", made.max_ctas,
      ". Pass 1 to ", kMostCtas, ", or 0, which is NCCL's choice.");
  LOCKSTEP_EXPECTS(made.max_ctas == 0 || made.min_ctas <= made.max_ctas, InvalidArgument,
                   "CommunicatorConfig: min_ctas is ", made.min_ctas, ", above max_ctas, which is ",
                   made.max_ctas, ". Pass at most max_ctas.");
}

}  // namespace

CommunicationImplementation parse_communication_implementation(std::string_view text) {
  if (equals_ignoring_case(text, "auto") || equals_ignoring_case(text, "automatic"))
    return CommunicationImplementation::automatic;
  if (equals_ignoring_case(text, "ring")) return CommunicationImplementation::ring;
  if (equals_ignoring_case(text, "peer")) return CommunicationImplementation::peer;
  LOCKSTEP_EXPECTS(equals_ignoring_case(text, "nccl"), InvalidArgument,
                   "parse_communication_implementation: '", text,
                   "' is not an implementation. Known are auto (or automatic), ring, nccl and peer.");
  return CommunicationImplementation::nccl;
}

CommunicationOptions CommunicationOptions::merged_over(const CommunicationOptions& defaults) const {
  validate(*this);
  validate(defaults);
  return {.bytes_per_pack = bytes_per_pack.or_else(defaults.bytes_per_pack),
          .timeout = timeout.or_else(defaults.timeout),
          .implementation = implementation.or_else(defaults.implementation),
          .deterministic = deterministic.or_else(defaults.deterministic),
          .peer_bytes = peer_bytes.or_else(defaults.peer_bytes),
          .label = label.empty() ? defaults.label : label,
          .communicator = communicator == CommunicatorConfig() ? defaults.communicator : communicator};
}

bool CommunicationOptions::operator==(const CommunicationOptions& other) const {
  return bytes_per_pack.is_same(other.bytes_per_pack) && timeout.is_same(other.timeout) &&
         implementation.is_same(other.implementation) && deterministic.is_same(other.deterministic) &&
         peer_bytes.is_same(other.peer_bytes) && label == other.label && communicator == other.communicator;
}

}  // namespace lockstep
