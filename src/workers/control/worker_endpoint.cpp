#include "workers/control/worker_endpoint.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail::control {

WorkerEndpoint::WorkerEndpoint(int worker, Session& session, Link link, Duration silence_limit)
    : worker_(worker), session_(session), link_(std::move(link)), silence_limit_(silence_limit) {}

Endpoint::Time WorkerEndpoint::watch(std::vector<pollfd>& watched) {
  watched.push_back({link_.get(), static_cast<short>(link_.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
  return std::min({next_heartbeat_, link_.last_heard() + silence_limit_, leaving_until_});
}

void WorkerEndpoint::serve(std::span<const pollfd>, Time now) {
  // There is one socket, which is read whatever poll saw. A process that was stopped finds what has come in
  // the meantime before it takes the leader for silent.
  link_.flush();
  link_.receive();
  const bool is_leaving = leaving_until_ != Time::max();
  try {
    while (auto message = link_.next())
      if (!is_leaving) session_.deliver(std::move(*message));
  } catch (const WireError&) {
    session_.lose_leader(kNoProtocol);
  }
  if (session_.silence_ms()) silence_limit_ = Duration(std::max<std::int64_t>(1, *session_.silence_ms()));
  if (link_.is_closed()) session_.lose_leader(why_closed(link_));
  if (!session_.is_over() && !is_leaving && now - link_.last_heard() >= silence_limit_) {
    session_.lose_leader(was_silent(silence_limit_));
    // The leader may only have been stopped: it finds this message when it goes on.
    if (session_.ended()) link_.send(Lost{0, session_.ended()->text});
  }
  is_over_ = session_.is_over() || link_.is_closed() || now >= leaving_until_;
  if (is_over_) return link_.end();
  if (now >= next_heartbeat_) {
    link_.send(Heartbeat{});
    next_heartbeat_ = now + silence_limit_ / kHeartbeatsPerLimit;
  }
}

void WorkerEndpoint::leave(const std::string& cause) {
  if (is_over_) return;
  if (cause.empty())
    link_.send(Left{worker_});
  else
    link_.send(Lost{worker_, cause});
  link_.end();
  leaving_until_ = std::chrono::steady_clock::now() + silence_limit_;
}

}  // namespace lockstep::detail::control
