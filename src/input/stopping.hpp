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

/// Makes the tokens current on this thread while it lives.
class StopScope {
 public:
  /// @param owner  which the threads that are started meanwhile follow.
  StopScope(std::stop_token token, std::stop_token owner);
  explicit StopScope(const std::stop_token& token) : StopScope(token, token) {}
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::stop_token before_, owner_before_;
};

/// Stops a pass's threads: all that are below a pass at once, and not one after the other as they are joined.
class ThreadStop {
 public:
  std::stop_token token() const noexcept { return source_.get_token(); }
  void request() noexcept { source_.request_stop(); }
  /// From now on also where the calling thread's owner is stopped.
  void follow_owner();
  /// Nothing, where the threads' work has ended. @throws Stopped  it was stopped, which is not the end.
  template <class T>
  std::optional<T> end() const {
    if (source_.stop_requested()) throw Stopped();
    return std::nullopt;
  }

 private:
  struct Request {
    std::stop_source source;
    void operator()() noexcept { source.request_stop(); }
  };

  std::stop_source source_;
  std::optional<std::stop_callback<Request>> owner_;
};

}  // namespace lockstep::detail
