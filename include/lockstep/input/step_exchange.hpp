#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// Keeps the workers of a strategy at the same steps of a pass. Each worker has one StepExchange for each
/// pass; a strategy of several workers implements it over the connection between them.
///
/// Messages are short, and only the library reads them. A worker sends one for every step, even if it has no
/// data or could not read, until all workers have ended or it leaves.
class StepExchange {
 public:
  /// Leaves the exchange.
  virtual ~StepExchange() = default;

  /// Sends this worker's message of a step and waits for the other workers' messages of the same step. The
  /// n-th call is for step n. The calls come one at a time, from the thread that makes the pass's steps.
  /// @return every worker's message, in worker order. Messages that a worker sent before it left still
  /// arrive.
  /// @throws CollectiveAborted  a worker left before it sent or is lost, or this one left. @throws
  /// CollectiveTimeout  the strategy's limit passed, if it has one. After either exception there are no
  /// further calls.
  virtual std::vector<std::string> all_gather(std::string message) = 0;

  /// Stops sending. all_gather then throws on this worker, even in a call that is waiting, and on the others
  /// for steps that this worker has not sent. Any thread may call, any number of times.
  virtual void leave() noexcept = 0;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
