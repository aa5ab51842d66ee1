#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include <lockstep/detail/function_ref.hpp>

#include "detail/file_descriptor.hpp"
#include "workers/control/link.hpp"
#include "workers/control/session.hpp"

namespace lockstep::detail {
struct ControlOptions;
}

namespace lockstep::detail::control {

/// @throws InvalidArgument  the worker's index, worker 0's address, or the limit of silence.
void check(const ControlOptions& options);
/// What a worker says of itself. @throws InvalidArgument  it is too long.
Hello hello_of(const ControlOptions& options);
/// An eventfd, which wakes the thread of a connection. @throws Error  the process has no descriptor left.
FileDescriptor open_wake_up();
/// Where worker 0 listens.
std::string listening_address(const ControlOptions& options);
/// Before the start.
std::vector<std::string> labels_of(const std::vector<std::string>& addresses);

/// How long a worker waits for the others at the start. Tells the log from time to time for whom.
class StartPatience {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;

  /// @param limit  0: none. @param is_outdated  ControlOptions's. @param what, advice  for messages.
  StartPatience(Duration limit, Duration log_interval, std::function<bool()> is_outdated = {},
                std::string_view what = "The start of the workers",
                std::string_view advice =
                    "Start all workers, look at the output of those, and check that they can reach worker "
                    "0's address.");

  /// For so long look need not be called.
  Duration rest() const;
  /// @param who  "worker 1 did not come". @return false: the time is over. @throws PeerLost  it is outdated.
  bool look(const std::string& who);
  /// What to throw then.
  Refused timeout(const std::string& who) const;
  /// From now on the time is never over.
  void end_limit() noexcept { limit_ = {}; }
  /// "60 s"
  std::string limit_text() const;

 private:
  Duration limit_, log_interval_;
  std::function<bool()> is_outdated_;
  const std::string_view what_, advice_;
  Time begin_, next_log_;
};

/// Connects to the leader, which may not be there yet, and says hello: each shows the other that it has the
/// token. @param take  gets the leader's first answer; throws WireError where that is none.
/// @throws CollectiveTimeout, InvalidArgument
Link reach_leader(const std::string& address, const Hello& hello, std::string_view token,
                  StartPatience& patience, FunctionRef<void(Message answer)> take);

/// The same, as a worker. @param session  gets the answer. @throws as reach_leader
Link join_leader(const std::string& address, const Hello& hello, std::string_view token, Session& session,
                 StartPatience& patience);

}  // namespace lockstep::detail::control
