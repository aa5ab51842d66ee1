#include "workers/control/joining/join.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include <poll.h>

#include "detail/concat.hpp"
#include "detail/expects.hpp"
#include "workers/control/endpoint.hpp"
#include "workers/control/errors.hpp"
#include "workers/control/hub.hpp"
#include "workers/control/socket.hpp"

namespace lockstep::detail::control {
namespace {

using Clock = std::chrono::steady_clock;
using Duration = std::chrono::milliseconds;

constexpr std::string_view kWhat = "Joining the workers";
constexpr std::string_view kAdvice =
    "Check that they run, call MultiWorkerMirroredStrategy::grow, and can be reached at worker 0's address.";
constexpr std::chrono::minutes kReachLimit{1};
constexpr Duration kPauseAfterLoss{50};

/// Here and not at the leader, whose heartbeats would wait for a name server.
void expect_own_address(const std::string& own, const std::vector<std::string>& workers) {
  for (std::size_t w = 0; w < workers.size(); ++w)
    LOCKSTEP_EXPECTS(!is_same_address(own, workers[w]), InvalidArgument, kWhat, ": its own address ", own,
                     " is that of ", make_label(static_cast<int>(w), workers[w]),
                     ". Give it one of its own.");
}

/// Nothing: the leader has gone, or has sent this process away.
std::optional<Invitation> await_invitation(Link& link, Duration silence, StartPatience& patience,
                                           const std::string& who) {
  for (Clock::time_point next_heartbeat{};;) {
    const auto now = Clock::now();  // before anything is read
    link.receive();
    while (auto message = link.next()) {
      if (const Refused* const refused = std::get_if<Refused>(&*message)) raise_refused(*refused);
      if (Invited* const invited = std::get_if<Invited>(&*message)) {
        if (invited->worker < 1 || invited->worker >= static_cast<std::int32_t>(invited->addresses.size()))
          throw WireError("the leader invites nobody");
        return Invitation{invited->worker, std::move(invited->addresses), std::move(link)};
      }
      if (!std::holds_alternative<Heartbeat>(*message)) throw WireError("a leader does not send that");
    }
    if (link.is_closed() || now - link.last_heard() >= silence) return std::nullopt;
    if (!patience.look(who)) raise_refused(patience.timeout(who));
    if (now >= next_heartbeat) {
      link.send(Heartbeat{});
      next_heartbeat = now + silence / kHeartbeatsPerLimit;
    }
    pollfd watched{link.get(), static_cast<short>(link.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0};
    const auto rest = std::chrono::ceil<Duration>(next_heartbeat - Clock::now());
    ::poll(&watched, 1, static_cast<int>(std::clamp(rest, Duration(1), patience.rest()).count()));
    link.flush();
  }
}

}  // namespace

bool Invitation::is_withdrawn() try {
  link.receive();
  while (link.next()) continue;
  return link.is_closed();
} catch (const WireError&) {
  return true;
}

Invitation wait_to_join(const std::string& leader, Hello hello, std::string_view token, Duration limit,
                        Duration log_interval) {
  static_cast<void>(parse_peer_address(leader));
  if (!hello.address.empty()) static_cast<void>(parse_peer_address(hello.address));
  hello.worker = kJoiner;
  hello.num_workers = 0;
  StartPatience patience(limit, log_interval, {}, kWhat, kAdvice);
  const std::string who = concat(make_label(0, leader), " and the others did not let this process join");
  const auto end = limit.count() > 0 ? Clock::now() + limit : Clock::time_point::max();
  for (;;) {
    Duration reach_limit = kReachLimit;
    if (limit.count() > 0)
      reach_limit = std::max(std::chrono::ceil<Duration>(end - Clock::now()), Duration(1));
    StartPatience reaching(reach_limit, log_interval, {}, kWhat, kAdvice);
    Duration silence{};
    Link link = reach_leader(leader, hello, token, reaching, [&](const Message& answer) {
      if (const Refused* const refused = std::get_if<Refused>(&answer)) raise_refused(*refused);
      const Waiting* const waiting = std::get_if<Waiting>(&answer);
      if (waiting == nullptr || waiting->silence_ms < 1) throw WireError("a leader does not send that");
      silence = Duration(waiting->silence_ms);
      expect_own_address(hello.address, waiting->addresses);
    });
    try {
      if (auto invitation = await_invitation(link, silence, patience, who)) return std::move(*invitation);
    } catch (const WireError&) {  // a leader that sends something else counts as gone
    }
    if (!patience.look(who)) raise_refused(patience.timeout(who));
    std::this_thread::sleep_for(kPauseAfterLoss);
  }
}

}  // namespace lockstep::detail::control
