#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workers/control/link.hpp"
#include "workers/control/start.hpp"
#include "workers/control/wire.hpp"

namespace lockstep::detail::control {

/// What the workers let a process join as.
struct Invitation {
  int worker;
  std::vector<std::string> addresses;  ///< Of all workers, this one's among them.
  Link link;                           ///< Open while the process is on its way; its end gives up.

  /// Whether the workers go on without it.
  bool is_withdrawn();
};

/// Waits at the leader until the workers let this process join. A leader that loses a worker sends it away,
/// and it comes again.
/// @param hello  with this process's address, if it has one.
/// @throws CollectiveTimeout  the patience is over; or nobody was at the address for a minute. @throws
/// InvalidArgument, ContextError  the leader refuses it: another version, another token, a worker's address;
/// or the workers have ended.
Invitation wait_to_join(const std::string& leader, Hello hello, std::string_view token,
                        std::chrono::milliseconds limit, std::chrono::milliseconds log_interval);

}  // namespace lockstep::detail::control
