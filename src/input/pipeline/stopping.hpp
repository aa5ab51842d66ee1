#pragma once

#include <optional>
#include <stop_token>

/// Stopping the passes that threads work on, so that dropping a pass that owns threads ends: every source,
/// every call of a user's function and every wait looks at its thread's token.
namespace lockstep::detail {

/// Thrown by a pass whose elements nobody waits for any more. Caught by the thread that it runs on.
struct Stopped {};

/// Of the thread that a pass owns and the calling code runs on; on others a token that never stops.
const std::stop_token& current_stop_token() noexcept;

/// @throws Stopped  the current token is.
void check_stop();

/// Stops a pass's threads: all that are below a pass at once, and not one after the other as they are joined.
class ThreadStop {
 public:
  std::stop_token token() const noexcept { return source_.get_token(); }
  void request() noexcept { source_.request_stop(); }
  /// From now on also where the calling thread's owner is stopped.
  void follow_owner();
  /// Of an outer pass: whether the calling thread is one of those below it. Answers until the thread ends,
  /// and while std::exit destroys static variables.
  bool stops_this_thread() const noexcept;
  /// Nothing, where the threads' work has ended. @throws Stopped  it was stopped, which is not the end.
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
  const ThreadStop* outer_ = nullptr;  // the outer pass's, compared only
};

/// What stops the thread, and the threads that it starts.
struct StopTokens {
  std::stop_token current, owner;
  const ThreadStop* outer = nullptr;  ///< Of the outer pass that is above threads that are started.
};

/// Makes tokens current on this thread while it lives.
class StopScope {
 public:
  explicit StopScope(const std::stop_token& token);
  /// On a thread of the pass's, until its end.
  explicit StopScope(const ThreadStop& stop);
  /// In a call of an outer pass: the threads that are started meanwhile follow `outer`.
  StopScope(std::stop_token token, const ThreadStop& outer);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  explicit StopScope(StopTokens tokens);

  StopTokens before_;
};

}  // namespace lockstep::detail
