#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <netinet/in.h>
#include <poll.h>

#include "simulation/system/system.hpp"

namespace lockstep::simulation {

/// One end of a connection, a socket that listens, or a counter of eventfd.
struct Socket {
  enum class State { made, listening, connecting, connected };

  Process* process = nullptr;
  State state = State::made;
  bool is_counter = false, blocks = true;
  bool is_shut = false;    ///< Nothing more is sent.
  bool has_ended = false;  ///< The peer has said so.
  bool is_reset = false;
  bool is_closed = false;
  bool is_muted = false;  ///< What is under way does not arrive.
  int error = 0;          ///< That the next call tells.
  sockaddr_in own{}, peer{};
  std::weak_ptr<Socket> other{};
  std::string received{};
  std::size_t in_flight = 0;    ///< Bytes that it has sent and that have not arrived.
  Time silence_limit = kNever;  ///< TCP_USER_TIMEOUT, with keepalives.
  Time last_arrival = 0;        ///< Of what it has sent.
  std::deque<std::shared_ptr<Socket>> backlog{};
  std::uint64_t counter = 0;
};

/// Connections of bytes between hosts. What one end sends comes in order, after a time that differs for each
/// direction of each pair of hosts; calls send and receive parts.
class Network {
 public:
  static constexpr int kFirstDescriptor = 1 << 20;  // above the system's own

  explicit Network(System& system);
  /// Of the simulation that runs.
  static Network& current() noexcept { return *current_; }

  /// @return a descriptor, or minus an error's number; so do the others, which return 0 or a size.
  int add(bool is_counter, bool blocks);
  /// @return null: the descriptor is none of these.
  std::shared_ptr<Socket> find(int descriptor) const;
  int bind(Socket& socket, sockaddr_in address);
  int listen(const std::shared_ptr<Socket>& socket);
  int connect(const std::shared_ptr<Socket>& socket, sockaddr_in address);
  int accept(Socket& socket, bool blocks, sockaddr_in& peer);
  std::int64_t send(const std::shared_ptr<Socket>& socket, const void* data, std::size_t size, bool blocks);
  std::int64_t receive(Socket& socket, void* data, std::size_t size, bool blocks);
  void shut(const std::shared_ptr<Socket>& socket);
  void close(int descriptor);
  /// What poll tells of one.
  short readiness(const Socket& socket) const;

  /// What is set while the link is cut counts for that cut too.
  void set_silence_limit(const std::shared_ptr<Socket>& socket, Time limit);
  /// What is sent between the hosts until then arrives later; kNever: not at all.
  void cut(const std::string& a, const std::string& b, Time until);
  /// The host sends and receives nothing more: who connects with it hears nothing of its end.
  void switch_off(const std::string& host) { off_.insert(host); }
  void switch_on(const std::string& host) { off_.erase(host); }
  /// The n-th message from now on is lost, which TCP does not do: for what must be noticed.
  void lose_message(std::uint64_t n) noexcept { lost_message_ = num_messages_ + n; }

  std::size_t num_descriptors(const Process& process) const;
  std::uint64_t num_bytes() const noexcept { return num_bytes_; }

 private:
  struct Link {
    Time latency = 0, cut_since = 0, cut_until = 0;
  };
  using Place = std::pair<std::uint32_t, std::uint16_t>;  // in the network's byte order

  Link& link(std::uint32_t from, std::uint32_t to);
  Time arrival(Socket& from);
  std::size_t room(const Socket& socket) const;
  bool is_off(std::uint32_t host) const;
  /// Wakes those that wait for it in calls.
  void tell(const Socket& socket);
  void arrive(const std::shared_ptr<Socket>& from, const std::string& bytes);
  void end(const std::shared_ptr<Socket>& from);
  void reset(const std::shared_ptr<Socket>& from);
  void close(const std::shared_ptr<Socket>& socket, bool is_kill);
  void kill(Process& process);
  void limit_silence(const std::shared_ptr<Socket>& socket, Time cut_until);

  static Network* current_;

  System& system_;
  const Time latency_;
  const std::uint64_t messages_per_delay_, calls_per_part_;
  std::map<int, std::shared_ptr<Socket>> sockets_{};
  std::map<Place, std::weak_ptr<Socket>> bound_{};
  std::map<std::pair<std::uint32_t, std::uint32_t>, Link> links_{};
  std::set<std::string> off_{};
  int next_descriptor_ = kFirstDescriptor;
  std::uint16_t next_port_ = 40'000;
  std::uint64_t num_bytes_ = 0, num_messages_ = 0, lost_message_ = 0;
};

}  // namespace lockstep::simulation
