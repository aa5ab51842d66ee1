#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workers/control/wire.hpp"

namespace lockstep::detail::control {

/// What the leader knows of the workers, and answers. It knows no sockets, and of a clock what it is told: so
/// it says to whom each message goes, and the leader carries it. Worker 0 is the leader itself. Not
/// thread-safe.
class Hub {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;

  struct Outgoing {
    int worker;
    Message message;
  };

  /// @param own  worker 0's. @param addresses  of all workers, for messages; may be empty.
  /// @param silence_limit  who is silent for so long is lost.
  Hub(const Hello& own, std::vector<std::string> addresses, Duration silence_limit);

  /// Accepts a worker, or says why not. A refusal before the start ends the start of all.
  std::optional<Refused> join(const Hello& hello, const std::string& peer_host);
  /// A worker that had joined has gone away before the start. It may come again.
  void forget(int worker);
  /// Ends the start of all.
  void refuse(const Refused& refused);
  /// Starts with those who have come. @param how  the others are lost: "it did not come within 60 s".
  void start_without_missing(std::string_view how);

  bool has_started() const noexcept { return has_started_; }
  /// Whether the worker has joined, and was neither lost nor has left.
  bool is_here(int worker) const { return worker_at(worker).is_here; }
  /// Whether the worker has left in order: where it starts anew, it waits for the next leader.
  bool has_left(int worker) const;
  /// Whether a worker is lost: nobody comes any more, and the others may begin anew.
  bool has_lost() const noexcept { return has_lost_; }
  /// "worker 1 (10.0.0.2:2222) and worker 3"
  std::string missing() const;
  const std::string& label(int worker) const { return worker_at(worker).label; }
  /// What each worker hears from the leader from time to time.
  Message heartbeat() const;

  /// @throws WireError  a worker does not send that.
  void receive(int worker, Message message, Time now);
  /// @param how  "its connection was closed".
  void lose(int worker, std::string_view how);
  /// @param cause  with the worker's label.
  void lose_because(int worker, std::string cause);
  void leave(int worker);
  /// Fails what has waited for too long.
  void expire(Time now);
  /// When to call expire.
  Time next_deadline() const;

  /// What is to be sent, in order.
  std::vector<Outgoing> take_outgoing();

  /// What it keeps: values, and all_gathers and streams that are not over.
  std::size_t num_kept() const noexcept { return values_.size() + gathers_.size() + streams_.size(); }

 private:
  struct Worker {
    bool is_here = false, has_left = false;
    std::string address{}, label{}, host{};
    std::int64_t pid = 0;
    std::uint64_t incarnation = 0;
  };
  struct PendingGet {
    int worker;
    Get get;
    Time deadline;
  };
  /// Stream and step.
  using Place = std::pair<std::uint32_t, std::uint32_t>;
  struct PendingGather {
    std::string what{};
    std::vector<std::optional<Gather>> by_worker{};
    Time deadline = Time::max();
    std::uint64_t limit_ms = kNoLimit;  // of that deadline
    std::optional<Failed> failed{};     // once it has, so has it for who comes late
  };

  const Worker& worker_at(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  Worker& worker_at(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  int num_workers() const noexcept { return static_cast<int>(workers_.size()); }

  std::optional<Refused> refusal(const Hello& hello, const std::string& comer) const;
  void add(int worker, const Hello& hello, const std::string& address);
  void start_if_complete();
  void start();
  template <class M>
  void send_to_all(const M& message, int except = -1);

  void receive_in_order(int worker, const Set& set);
  void receive_in_order(int worker, const Get& get, Time now);
  void receive_in_order(int worker, const Gather& gather, Time now);
  void receive_in_order(int worker, const StreamEnd& end);
  void forget_ended_streams();
  /// @param predicate  (place, pending all_gather).
  template <class Predicate>
  void erase_gathers_if(const Predicate& predicate);
  /// A worker's text, if it has come to the step, or has ended the stream.
  const std::string* find_text(Place place, const PendingGather& pending, int worker) const;
  /// Answers an all_gather to which all have come. @return whether nobody comes to it any more.
  bool complete(Place place, PendingGather& pending);
  void fail(PendingGather& pending, ErrorKind kind, std::string text);
  std::string missing(Place place, const PendingGather& pending) const;

  std::vector<Worker> workers_;
  std::string version_;
  Duration silence_limit_;
  bool has_started_ = false, is_refused_ = false, has_lost_ = false;
  std::string who_left_{};  // the first; empty: none
  std::map<std::string, std::string> values_{};
  std::vector<PendingGet> gets_{};
  std::map<Place, PendingGather> gathers_{};
  std::map<std::uint32_t, std::vector<std::optional<std::string>>>
      streams_{};  // who has ended one, by worker
  std::vector<Outgoing> outgoing_{};
};

/// "worker 1 (10.0.0.2:2222)", or "worker 1" where the address is empty.
std::string make_label(int worker, std::string_view address);

}  // namespace lockstep::detail::control
