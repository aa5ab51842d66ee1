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
}

}  // namespace

CommunicationImplementation parse_communication_implementation(std::string_view text) {
  if (equals_ignoring_case(text, "auto") || equals_ignoring_case(text, "automatic"))
    return CommunicationImplementation::automatic;
  if (equals_ignoring_case(text, "ring")) return CommunicationImplementation::ring;
  LOCKSTEP_EXPECTS(equals_ignoring_case(text, "nccl"), InvalidArgument,
                   "parse_communication_implementation: '", text,
                   "' is not an implementation. Known are auto (or automatic), ring and nccl.");
  return CommunicationImplementation::nccl;
}

CommunicationOptions CommunicationOptions::merged_over(const CommunicationOptions& defaults) const {
  validate(*this);
  validate(defaults);
  return {.bytes_per_pack = bytes_per_pack.or_else(defaults.bytes_per_pack),
          .timeout = timeout.or_else(defaults.timeout),
          .implementation = implementation.or_else(defaults.implementation),
          .deterministic = deterministic.or_else(defaults.deterministic)};
}

}  // namespace lockstep
