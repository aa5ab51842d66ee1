#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workers/control/link.hpp"
#include "workers/control/socket.hpp"
#include "workers/control/wire.hpp"

namespace lockstep::detail::control {

/// The processes that have shown the token and wait to become workers, and the socket on which the leader
/// listens. The leader's endpoint polls the socket and the processes' links, which therefore end in its calls
/// of admit, serve, serve_leaving and close alone. An invitation lends the socket to the leader of the larger
/// cluster, which keeps it if that comes about. Not thread-safe.
class WaitingList {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;

  /// @param leader  the leader's label. @param addresses  of the workers; may be empty. @param silence_limit
  /// who is silent for so long has gone.
  WaitingList(std::string leader, std::string version, std::vector<std::string> addresses,
              Duration silence_limit);

  void open(std::shared_ptr<const ListeningSocket> socket) { socket_ = std::move(socket); }
  /// Where to accept now; null: nowhere.
  const ListeningSocket* listening_socket() const noexcept {
    return is_inviting_ || has_moved_ ? nullptr : socket_.get();
  }

  /// Lets somebody wait, or tells why not. Who comes with the address of one that waits takes its place.
  void admit(Link link, const Hello& hello);
  /// Calls f with each link.
  template <class F>
  void for_each_link(const F& f) {
    for (Joiner& joiner : joiners_) f(joiner.link);
  }
  /// Takes what has come, and drops who has gone.
  void serve(Time now);
  /// The same after refuse_all.
  void serve_leaving();
  void send_heartbeats();
  /// When to call serve.
  Time next_deadline() const;

  /// How many wait, and have not been invited. After an invitation in vain that is nobody for a second, and
  /// for twice as long after each further one, up to a minute: one that always fails holds nobody up for
  /// long.
  int num_waiting(Time now = std::chrono::steady_clock::now()) const noexcept;
  /// Lets all who wait become workers, or nobody if it throws, and lends the socket to their start. @return
  /// their addresses, which may be empty, by index; where num_waiting is 0 nothing has changed.
  std::vector<std::string> invite(Time now = std::chrono::steady_clock::now());
  /// Null: it is not lent.
  std::shared_ptr<const ListeningSocket> lent_socket() const { return is_inviting_ ? socket_ : nullptr; }
  /// Whether it has ever invited, so that one of such a start may come when that has failed.
  bool has_invited() const noexcept { return has_invited_; }
  /// Whether somebody who was invited has gone, until the invitation ends.
  bool has_lost_invited() const noexcept { return has_lost_invited_; }
  /// @param has_grown  they are workers of another cluster, which keeps the socket, and where the others may
  /// wait. Else they may come again.
  void end_invitation(bool has_grown, Time now = std::chrono::steady_clock::now());

  /// The leader leaves: tells all that they wait in vain, unless others keep the socket.
  void refuse_all();
  /// Who waits may wait for another leader at the same address.
  void close();
  bool is_empty() const noexcept { return joiners_.empty(); }

 private:
  struct Joiner {
    Link link;
    std::string address;
    bool is_invited = false, is_sent_away = false;
  };

  Refused refused(ErrorKind kind, const std::string& why) const;
  std::optional<Refused> refusal(const Hello& hello) const;
  bool has_gone(Joiner& joiner, Time now) const;

  const std::string leader_, version_;
  const std::vector<std::string> addresses_;
  const Duration silence_limit_;
  std::shared_ptr<const ListeningSocket> socket_{};  // owners: this, and the start that it is lent to
  std::list<Joiner> joiners_{};                      // in the order in which they came
  bool is_inviting_ = false, has_invited_ = false, has_lost_invited_ = false, has_moved_ = false;
  Duration pause_{};     // after the last invitation in vain
  Time counts_again_{};  // when it ends
};

}  // namespace lockstep::detail::control
