#pragma once

#include <stop_token>

/// Stopping the passes that a thread works on, so that dropping a pass that owns the thread ends.
namespace lockstep::detail {

/// Thrown by a pass whose elements nobody waits for any more. Caught by the thread that it runs on.
struct Stopped {};

/// Of the thread that a pass owns and the calling code runs on; on others a token that never stops. Passes
/// that may look at elements without end ask it; those that wait or have threads watch that of the thread
/// which calls `next`.
const std::stop_token& current_stop_token() noexcept;

/// Makes the token current on this thread while it lives.
class StopScope {
 public:
  explicit StopScope(std::stop_token token);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::stop_token before_;
};

/// @throws Stopped  the current token is.
void check_stop();

}  // namespace lockstep::detail
