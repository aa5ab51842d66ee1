#pragma once

#include "workers/control/endpoint.hpp"
#include "workers/control/link.hpp"

namespace lockstep::detail::control {

/// The end of a worker that is not the leader: one connection.
class WorkerEndpoint final : public Endpoint {
 public:
  /// @param link  the leader has answered on it. @param silence_limit  until the leader says its own.
  WorkerEndpoint(int worker, Session& session, Link link, Duration silence_limit);

  void send(Message message) override { link_.send(std::move(message)); }
  Time watch(std::vector<pollfd>& watched) override;
  void serve(std::span<const pollfd> watched, Time now) override;
  void refuse(const Refused&) override {}
  void leave(const std::string& cause) override;
  bool is_over() const override { return is_over_; }

 private:
  void receive(Time now);

  const int worker_;
  Session& session_;
  Link link_;
  Duration silence_limit_;
  Time next_heartbeat_{};
  Time leaving_until_ = Time::max();
  bool is_over_ = false;
};

}  // namespace lockstep::detail::control
