#pragma once

#include <optional>
#include <stop_token>

/// Stops the passes that threads work on, so that dropping a pass that owns threads ends: every source, every
/// call of a user's function and every wait checks its thread's token.
namespace lockstep::detail {

/// Thrown by a pass whose elements are no longer wanted. The thread that runs the pass catches it.
struct Stopped {};

/// The token of the pass's thread that runs the calling code; on other threads a token that never stops.
const std::stop_token& current_stop_token() noexcept;

/// @throws Stopped  the current token was stopped.
void check_stop();

/// Stops a pass's threads: all threads below a pass at once, not one after the other as they are joined.
class ThreadStop {
 public:
  std::stop_token token() const noexcept { return source_.get_token(); }
  void request() noexcept { source_.request_stop(); }
  /// Stops from now on also when the calling thread's owner is stopped.
  void follow_owner();
  /// For an outer pass: whether the calling thread is one of the threads below it. Valid until the thread
  /// ends, and while std::exit destroys static variables.
  bool stops_this_thread() const noexcept;
  /// Returns nothing if the threads' work has ended. @throws Stopped  the pass was stopped instead.
  template <class T>
  std::optional<T> end() const {
    if (source_.stop_requested()) throw Stopped();
    return std::nullopt;
  }

 private:
  friend class StopScope;
  struct Request {
    std::stop_source source;
    void operator()() noexcept { source.request_stop(); }
  };

  std::stop_source source_;
  std::optional<std::stop_callback<Request>> owner_;
  const ThreadStop* outer_ = nullptr;  // the outer pass's; only compared
};

/// The token that stops a thread, and the outer pass of the threads that it starts.
struct StopTokens {
  std::stop_token current, owner;
  const ThreadStop* outer = nullptr;  ///< The outer pass above threads that are started.
};

/// Makes tokens current on this thread while it lives.
class StopScope {
 public:
  explicit StopScope(const std::stop_token& token);
  /// For a thread of a pass, until the thread's end.
  explicit StopScope(const ThreadStop& stop);
  /// For a call of an outer pass: threads that are started meanwhile follow `outer`.
  StopScope(std::stop_token token, const ThreadStop& outer);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  explicit StopScope(StopTokens tokens);

  StopTokens before_;
};

}  // namespace lockstep::detail
