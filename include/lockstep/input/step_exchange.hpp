#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// How the workers of a strategy keep the steps of one pass together: one of these on each worker, for each
/// pass. A strategy of several workers implements it over whatever connects them.
///
/// Messages are short and the library's own. A worker sends one for every step, also when it has no data or
/// could not read, until all have ended or it leaves.
class StepExchange {
 public:
  /// Leaves.
  virtual ~StepExchange() = default;

  /// Sends this worker's message of a step, and waits for the others' of the same step. The n-th call is for
  /// step n; one call at a time, on the thread that makes the pass's steps.
  /// @return every worker's message, in worker order. What a worker sent before it left still arrives.
  /// @throws CollectiveAborted  a worker left before it sent, or is lost; this one left. @throws
  /// CollectiveTimeout  if there is a limit. Not called again after either.
  virtual std::vector<std::string> all_gather(std::string message) = 0;

  /// This worker sends nothing any more; all_gather throws here, where one is waiting too, and on the others
  /// for steps that it has not sent. Any thread, any number of times.
  virtual void leave() noexcept = 0;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
