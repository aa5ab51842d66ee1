#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workers/control/endpoint.hpp"
#include "workers/control/hub.hpp"
#include "workers/control/joining/waiting_list.hpp"
#include "workers/control/link.hpp"

namespace lockstep::detail {
struct ControlOptions;
}

namespace lockstep::detail::control {

/// Worker 0's endpoint: it listens, and serves all the others, and those who would join.
class LeaderEndpoint final : public Endpoint {
 public:
  /// @param own  worker 0's. @param listen  the address to listen on, unless it is alone.
  /// @throws InvalidArgument, Error  it cannot.
  LeaderEndpoint(Session& session, const Hello& own, const std::string& listen,
                 const ControlOptions& options);

  void send(Message message) override;
  Time watch(std::vector<pollfd>& watched) override;
  void serve(std::span<const pollfd> watched, Time now) override;
  void refuse(const Refused& refused) override;
  void start_without_missing(std::string_view how) override;
  void leave(const std::string& cause) override;
  bool is_over() const override;
  WaitingList* waiting_list() override { return &waiting_list_; }

 private:
  /// With somebody who has not yet shown that it has the token, nor said who it is.
  struct Handshake {
    Link link;
    std::string nonce;
    std::string host;
    Time until;
  };

  void accept(Time now);
  /// Whether it is over.
  bool welcome(Handshake& handshake, Time now);
  void serve_worker(int worker, Time now);
  void serve_leaving();
  void lose(int worker, std::string_view how);
  /// Carries what the hub says. Any thread.
  void carry();
  /// Only within serve: watched_ is not looked at any more.
  void drop_gone();
  int num_workers() const noexcept { return static_cast<int>(links_.size()); }
  std::unique_ptr<Link>& link(int worker) { return links_[static_cast<std::size_t>(worker)]; }

  Session& session_;
  Hub hub_;
  const std::string token_;
  const bool turns_away_;  // who counts other workers
  const Duration silence_limit_;
  WaitingList waiting_list_;
  std::vector<std::unique_ptr<Link>> links_;  // by worker; null: it is not here
  std::list<Handshake> handshakes_{};         // the oldest first
  std::vector<Link*> watched_{};              // as poll watches them, after the socket that listens
  bool watches_socket_ = false;
  Time accept_again_{};  // not before that
  Time next_heartbeat_{};
  Time leaving_until_ = Time::max();
};

}  // namespace lockstep::detail::control
