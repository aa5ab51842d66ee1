#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workers/control/wire.hpp"

namespace lockstep::detail::control {

/// What a worker's listener is told.
struct Event {
  enum class Kind { failure, lost, left };
  Kind kind;
  int worker;
  std::uint64_t epoch;
  std::string text;
};

/// A call that waits for the leader's answer. Whoever made it looks at is_answered, then at the answer.
struct PendingCall {
  std::atomic<bool> is_answered{false};
  Message answer{};
};

/// What a worker knows from the leader: how the start goes, the answers to its calls, who is lost. Guarded by
/// the connection's mutex, but for what says otherwise.
class Session {
 public:
  /// @param labels  of all workers, until the leader says better ones.
  Session(int worker, std::vector<std::string> labels) : worker_(worker), labels_(std::move(labels)) {}

  /// Takes a message of the leader's. @throws WireError  a leader does not send that.
  void deliver(Message message);
  /// The connection to the leader is over.
  void lose_leader(std::string_view how);
  /// This worker leaves: its calls fail, and its listener hears nothing more.
  void leave();
  /// Whether the leader is lost or has left, or this worker is lost.
  bool is_over() const noexcept { return is_over_; }
  /// Why all calls fail; nothing: they do not.
  const std::optional<Failed>& ended() const noexcept { return ended_; }

  /// Whether the start has succeeded or failed. Any thread.
  bool has_settled() const noexcept { return has_settled_.load(); }
  /// How it failed; nothing: it did not.
  const std::optional<Refused>& refused() const noexcept { return refused_; }
  /// Who has not come, as far as it is known.
  const std::string& missing() const noexcept { return missing_; }
  /// After how long a silence the leader takes a worker for lost; nothing: it has not said.
  const std::optional<std::int64_t>& silence_ms() const noexcept { return silence_ms_; }

  /// Fixed once the start has succeeded; then any thread.
  const std::vector<std::string>& labels() const noexcept { return labels_; }
  const std::vector<std::string>& hosts() const noexcept { return hosts_; }

  /// Registers a call, which must stay where it is until it is answered: that it is at once when all calls
  /// fail.
  /// @return its number, for the message.
  std::uint64_t add(PendingCall& call);
  /// Nobody waits for the call any more.
  void remove(std::uint64_t number) { calls_.erase(number); }
  std::uint32_t next_step() noexcept { return next_step_++; }

  std::vector<Event> take_events();

 private:
  template <class Answer>
  void answer(Answer&& message) {
    const std::uint64_t number = message.call;
    answer(number, std::forward<Answer>(message));
  }
  void answer(std::uint64_t number, Message message);
  void end_calls(ErrorKind kind, const std::string& text);
  void settle(std::optional<Refused> refused);
  bool has_started() const noexcept { return has_settled() && !refused_; }

  const int worker_;
  std::vector<std::string> labels_, hosts_{};
  std::string missing_{};
  std::optional<std::int64_t> silence_ms_{};
  std::atomic<bool> has_settled_{false};
  std::optional<Refused> refused_{};
  bool is_over_ = false, has_left_ = false;
  std::optional<Failed> ended_{};  // why all calls fail: the first reason
  std::map<std::uint64_t, PendingCall*> calls_{};
  std::uint64_t last_call_ = 0;
  std::uint32_t next_step_ = 0;
  std::vector<Event> events_{};
};

}  // namespace lockstep::detail::control
