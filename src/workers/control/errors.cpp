#include "workers/control/errors.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail::control {
namespace {

std::string_view advice(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "Exchange less at a time.";
    case ErrorKind::mismatch: return "Make the same calls in the same order on all workers.";
    case ErrorKind::context: return "Make a new strategy.";
    case ErrorKind::timeout: return "Look at what the workers do that have not come, or allow more time.";
    case ErrorKind::lost: break;
  }
  return "Make a new strategy of the workers that are left, or end the program.";
}

}  // namespace

void raise_kind(ErrorKind kind, const std::string& message) {
  const SourceLocation here{__FILE__, __LINE__, __func__};
  switch (kind) {
    case ErrorKind::invalid_argument: raise<InvalidArgument>(here, message);
    case ErrorKind::mismatch: raise<CollectiveMismatch>(here, message);
    case ErrorKind::context: raise<ContextError>(here, message);
    case ErrorKind::timeout: raise<CollectiveTimeout>(here, message);
    case ErrorKind::lost: break;
  }
  raise<PeerLost>(here, message);
}

void raise_refused(const Refused& refused) { raise_kind(refused.kind, refused.text); }

void raise_failed(std::string_view call, const Failed& failed) {
  raise_kind(failed.kind, concat(call, ": ", failed.text, ". ", advice(failed.kind)));
}

}  // namespace lockstep::detail::control
