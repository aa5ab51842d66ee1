#include "workers/control/leader_endpoint.hpp"

#include <algorithm>
#include <utility>

#include "workers/control/control_connection.hpp"
#include "workers/control/proof.hpp"

namespace lockstep::detail::control {
namespace {

// Whoever comes when they are there takes the place of the oldest: strangers who stay do not keep workers
// out.
constexpr std::size_t kMaxHandshakes = 256;
constexpr int kMaxAccepted = 128;  // at a time: a worker among many that come at once has answered by then
constexpr std::chrono::seconds kHelloLimit{5};
constexpr std::chrono::milliseconds kAcceptPause{100};  // where the process has no descriptor left

}  // namespace

LeaderEndpoint::LeaderEndpoint(Session& session, const Hello& own, const std::string& listen,
                               const ControlOptions& options)
    : session_(session),
      hub_(own, options.addresses, options.silence_limit),
      token_(options.token),
      turns_away_(options.is_outdated != nullptr),
      silence_limit_(options.silence_limit),
      waiting_list_(hub_.label(0), own.version, options.addresses, options.silence_limit),
      links_(options.addresses.size()) {
  if (options.listening_socket != nullptr)
    waiting_list_.open(options.listening_socket);
  else if (num_workers() > 1 || options.listens_alone)
    waiting_list_.open(std::make_shared<const ListeningSocket>(listen));
  carry();
}

void LeaderEndpoint::send(Message message) {
  hub_.receive(0, std::move(message), std::chrono::steady_clock::now());
  carry();
}

Endpoint::Time LeaderEndpoint::watch(std::vector<pollfd>& watched) {
  Time next =
      std::min({next_heartbeat_, hub_.next_deadline(), waiting_list_.next_deadline(), leaving_until_});
  const ListeningSocket* const socket = waiting_list_.listening_socket();
  watches_socket_ = socket != nullptr && std::chrono::steady_clock::now() >= accept_again_;
  if (watches_socket_) watched.push_back({socket->get(), POLLIN, 0});
  if (socket != nullptr && !watches_socket_) next = std::min(next, accept_again_);
  watched_.clear();
  const auto watch = [&](Link& link) {
    watched.push_back({link.get(), static_cast<short>(link.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
    watched_.push_back(&link);
  };
  for (const auto& link : links_) {
    if (!link) continue;
    watch(*link);
    if (leaving_until_ == Time::max()) next = std::min(next, link->last_heard() + silence_limit_);
  }
  waiting_list_.for_each_link(watch);
  for (Handshake& handshake : handshakes_) {
    watch(handshake.link);
    next = std::min(next, handshake.until);
  }
  return next;
}

void LeaderEndpoint::serve(std::span<const pollfd> watched, Time now) {
  const bool has_handshakes_to_accept = watches_socket_ && watched.front().revents != 0;
  if (watches_socket_) watched = watched.subspan(1);
  for (std::size_t i = 0; i < watched.size(); ++i) {
    if ((watched[i].revents & POLLOUT) != 0) watched_[i]->flush();
    if ((watched[i].revents & ~POLLOUT) != 0) watched_[i]->receive();
  }
  if (leaving_until_ != Time::max()) return serve_leaving();

  for (int worker = 1; worker < num_workers(); ++worker) serve_worker(worker, now);
  waiting_list_.serve(now);
  std::erase_if(handshakes_, [&](Handshake& handshake) { return welcome(handshake, now); });
  if (has_handshakes_to_accept) accept(now);
  hub_.expire(now);
  carry();
  if (now >= next_heartbeat_) {
    const Message heartbeat = hub_.heartbeat();
    for (const auto& link : links_)
      if (link) link->send(heartbeat);
    waiting_list_.send_heartbeats();
    next_heartbeat_ = now + silence_limit_ / kHeartbeatsPerLimit;
  }
  drop_gone();
}

void LeaderEndpoint::serve_worker(int worker, Time now) {
  if (!link(worker)) return;
  Link& peer = *link(worker);
  for (bool has_looked_again = false;; has_looked_again = true) {
    try {
      while (hub_.is_here(worker)) {
        auto message = peer.next();
        if (!message) break;
        hub_.receive(worker, std::move(*message), now);
      }
    } catch (const WireError&) {
      lose(worker, kNoProtocol);
    }
    if (!hub_.is_here(worker)) return;
    if (peer.is_closed()) return lose(worker, why_closed(peer));
    if (now - peer.last_heard() < silence_limit_) return;
    if (has_looked_again) return lose(worker, was_silent(silence_limit_));
    peer.receive();  // this process may have been stopped since poll looked
  }
}

void LeaderEndpoint::lose(int worker, std::string_view how) {
  if (hub_.has_started()) return hub_.lose(worker, how);
  hub_.forget(worker);  // it may come again
}

bool LeaderEndpoint::welcome(Handshake& handshake, Time now) {
  try {
    const auto message = handshake.link.next();
    if (!message) return handshake.link.is_closed() || now >= handshake.until;
    const Join& join = std::get<Join>(*message);
    const auto refuse = [&](const Refused& refused) {
      handshake.link.send(refused);
      handshake.link.end();
      return true;
    };
    if (join.nonce.size() != kNonceBytes ||
        !is_same_proof(join.proof, prove(token_, Prover::worker, handshake.nonce, join.nonce, join.hello)))
      return refuse({ErrorKind::invalid_argument,
                     "The start of the workers: this process does not have worker 0's token. Set "
                     "LOCKSTEP_TOKEN to the same value for all workers."});
    const auto decoded = decode(join.hello);
    const Hello* const hello = decoded ? std::get_if<Hello>(&decoded->message) : nullptr;
    if (hello == nullptr || hub_.has_left(hello->worker) || hub_.has_lost()) return true;
    const bool joins = hello->worker == kJoiner;
    if (!joins && waiting_list_.has_invited() && hello->num_workers > num_workers())
      return refuse({ErrorKind::lost, "The start of the workers: the others go on without those who join."});
    // It may be on its way to the next leader; after the start it hears why it is none of the workers.
    if (turns_away_ && !joins && !hub_.has_started() && hello->num_workers != num_workers()) return true;
    handshake.link.send(Welcome{prove(token_, Prover::leader, handshake.nonce, join.nonce, {})});
    if (joins) {
      waiting_list_.admit(std::move(handshake.link), *hello);
      return true;
    }
    if (const auto refused = hub_.join(*hello, handshake.host)) return refuse(*refused);
    handshake.link.set_limits({});
    link(hello->worker) = std::make_unique<Link>(std::move(handshake.link));
  } catch (const WireError&) {  // whoever it is, it is none of the workers
  }
  return true;
}

void LeaderEndpoint::accept(Time now) {
  for (int i = 0; i < kMaxAccepted; ++i) {
    auto accepted = waiting_list_.listening_socket() == nullptr ? std::nullopt
                                                                : waiting_list_.listening_socket()->accept();
    if (!accepted) {
      if (i == 0) accept_again_ = now + kAcceptPause;
      return;
    }
    if (handshakes_.size() == kMaxHandshakes) handshakes_.pop_front();
    Link link(std::move(accepted->socket), {kMaxHelloBytes, kind_of<Join>()});
    Handshake& handshake = handshakes_.emplace_back(
        Handshake{std::move(link), random_nonce(), std::move(accepted->peer_host), now + kHelloLimit});
    handshake.link.send(Challenge{handshake.nonce});
  }
}

void LeaderEndpoint::carry() {
  if (!hub_.has_started()) session_.deliver(hub_.heartbeat());
  for (Hub::Outgoing& outgoing : hub_.take_outgoing()) {
    if (outgoing.worker == 0) {
      session_.deliver(std::move(outgoing.message));
    } else if (Link* const to = link(outgoing.worker).get()) {
      to->send(std::move(outgoing.message));
    }
  }
}

void LeaderEndpoint::drop_gone() {
  if (hub_.has_lost()) {  // for the next leader, which may have the same address
    waiting_list_.close();
    handshakes_.clear();
  }
  for (int worker = 1; worker < num_workers(); ++worker) {
    if (!link(worker) || (hub_.is_here(worker) && !session_.is_over())) continue;
    link(worker)->end();
    link(worker).reset();
  }
}

void LeaderEndpoint::refuse(const Refused& refused) {
  hub_.refuse(refused);
  carry();
}

void LeaderEndpoint::start_without_missing(std::string_view how) {
  hub_.start_without_missing(how);
  carry();
}

void LeaderEndpoint::leave(const std::string& cause) {
  if (is_over()) return;
  if (cause.empty()) {
    hub_.leave(0);
    waiting_list_.refuse_all();
  } else {
    hub_.lose_because(0, cause);
  }
  carry();
  for (const auto& link : links_)
    if (link) link->end();
  leaving_until_ = std::chrono::steady_clock::now() + std::min(silence_limit_, kLeavingLimit);
}

void LeaderEndpoint::serve_leaving() {
  if (hub_.has_lost()) waiting_list_.close();  // for the next leader
  waiting_list_.serve_leaving();
  handshakes_.clear();
  for (auto& link : links_)
    if (link && link->is_closed()) link.reset();
}

bool LeaderEndpoint::is_over() const {
  if (leaving_until_ == Time::max()) return session_.is_over();
  const bool is_heard = std::ranges::none_of(links_, [](const auto& link) { return link != nullptr; });
  return (is_heard && waiting_list_.is_empty()) || std::chrono::steady_clock::now() >= leaving_until_;
}

}  // namespace lockstep::detail::control
