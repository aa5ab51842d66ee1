#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <poll.h>

#include "detail/concat.hpp"
#include "workers/control/link.hpp"
#include "workers/control/session.hpp"
#include "workers/control/wire.hpp"

namespace lockstep::detail::control {

class WaitingList;

/// One endpoint of the star: the leader's, or another worker's. The connection's mutex guards it; its thread
/// alone calls watch and serve.
class Endpoint {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;

  virtual ~Endpoint() = default;

  /// From this worker to the leader.
  virtual void send(Message message) = 0;

  /// Appends what poll is to watch. @return when to serve at the latest.
  virtual Time watch(std::vector<pollfd>& watched) = 0;
  /// Takes what has come, sends heartbeats, and finds out who is lost. @param watched  as poll left it: what
  /// watch appended. @param now  before which nothing has been read.
  virtual void serve(std::span<const pollfd> watched, Time now) = 0;

  /// The leader's: ends the start of all.
  virtual void refuse(const Refused& refused) = 0;
  /// The leader's: Hub::start_without_missing.
  virtual void start_without_missing(std::string_view) {}
  /// Tells the others that this worker ends, and goes on with serve until they know, or for as long as one
  /// may be silent, and kLeavingLimit at most. @param cause  why it is lost; empty: it ends in order.
  virtual void leave(const std::string& cause) = 0;
  /// Nothing is left to serve.
  virtual bool is_over() const = 0;
  /// The leader's; null: another worker's endpoint, where nobody joins.
  virtual WaitingList* waiting_list() { return nullptr; }
};

/// Heartbeats come five times within the limit, so that four may be late.
inline constexpr int kHeartbeatsPerLimit = 5;
/// How long an endpoint that leaves waits at most for the others to hear of it.
inline constexpr std::chrono::milliseconds kLeavingLimit{10'000};

/// "its connection was closed"
inline std::string why_closed(const Link& link) {
  if (link.error() == 0) return "its connection was closed";
  return concat("its connection failed: ", std::generic_category().message(link.error()));
}
inline constexpr const char* kNoProtocol = "it does not speak lockstep's protocol";
/// "it was silent for 5 s"
inline std::string was_silent(std::chrono::milliseconds limit) {
  return concat("it was silent for ", std::chrono::duration<double>(limit).count(), " s");
}

}  // namespace lockstep::detail::control
