/// What a meeting of workers throws whose messages are not of one call.
#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/expects.hpp"
#include "workers/worker_meeting.hpp"

namespace lockstep::detail {
namespace {

constexpr SourceLocation kHere{__FILE__, __LINE__, "WorkerMeeting"};

}  // namespace

// All workers see the same messages, so that all throw the same.
void WorkerMeeting::throw_disagreement() {
  try {
    check_agreement();
    raise<Error>(kHere,
                 "the workers' calls have different digests, yet are alike. "
                 "Run the same build on all workers.");
  } catch (const Error& error) {
    enter_epoch(epoch_ + 1, concat(kOther, error.what()));
    failed_together_ = true;
    throw;
  }
}

void WorkerMeeting::check_agreement() const {
  for (int w = 0; w < num_workers(); ++w) {
    const Message message = decode(w);
    const std::string text(reinterpret_cast<const char*>(message.content.data()), message.content.size());
    const auto say = [&] { return concat(label(w), ": ", text); };
    switch (message.kind) {
      case Kind::call: break;
      case Kind::invalid_argument: raise<InvalidArgument>(kHere, say());
      case Kind::mismatch: raise<CollectiveMismatch>(kHere, say());
      case Kind::unsupported: raise<Unsupported>(kHere, say());
      case Kind::context: raise<ContextError>(kHere, say());
      case Kind::not_found: raise<NotFound>(kHere, say());
      case Kind::other: raise<CollectiveAborted>(kHere, say());
    }
  }
  const Message first = decode(0);
  for (int w = 1; w < num_workers(); ++w) {
    const Message message = decode(w);
    LOCKSTEP_EXPECTS(message.run == first.run && message.call == first.call, ContextError, message.operation,
                     ": ", label(w), " makes it as call ", message.call, " of its run ", message.run,
                     ", where ", label(0), " makes ", first.operation, " as call ", first.call,
                     " of its run ", first.run, ".", descriptions(w, 0),
                     " Make the same calls in the same order on every worker.");
    LOCKSTEP_EXPECTS(message.operation == first.operation, CollectiveMismatch, message.operation, ", call ",
                     message.call, ": ", label(w), " calls it where ", label(0), " calls ", first.operation,
                     ".", descriptions(w, 0), " Make the same calls in the same order on every worker.");
  }
}

std::string WorkerMeeting::descriptions(int a, int b) const {
  const CallHistory one(decode(a).history), other(decode(b).history);
  if (one.newest().empty() && other.newest().empty()) return {};
  const auto text = [](const CallHistory& history) {
    const std::string newest = history.newest();
    return newest.empty() ? "a call of another kind" : newest;
  };
  const CallDifference first = CallHistory::difference(label(a), one, label(b), other);
  std::string sentences = concat(" ", label(a), ": ", text(one), "; ", label(b), ": ", text(other), ".");
  if (!first.text.empty() && !first.is_newest)
    sentences += concat(" The first recorded call that differs: ", first.text, ".");
  return sentences;
}

CallDifference WorkerMeeting::difference() const {
  const CallHistory first(decode(0).history);
  for (int w = 1; w < num_workers(); ++w) {
    CallDifference found = CallHistory::difference(label(w), CallHistory(decode(w).history), label(0), first);
    if (!found.text.empty()) return found;
  }
  return {};
}

}  // namespace lockstep::detail
