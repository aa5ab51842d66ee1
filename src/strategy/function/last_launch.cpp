#include "strategy/function/last_launch.hpp"

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

namespace {

bool is_captured(const StreamRef& stream) { return stream.device_backend().is_capturing(stream.handle()); }

}  // namespace

void LastLaunch::require_can_move_to(const StreamRef& stream) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_EXPECTS(
      !stream_ || stream_ == stream || !is_captured(*stream_), ContextError, "function on ", stream.device(),
      ": the stream of the strategy's last launch, which this one is to follow, is being captured. "
      "Call it after the capture.");
}

void LastLaunch::move_to(const StreamRef& stream) {
  const std::lock_guard lock(mutex_);
  if (stream_ == stream) return;
  if (stream_) end_.record(*stream_);
  stream.wait(end_);
  stream_ = stream;
}

void LastLaunch::leave(const StreamRef& stream) {
  const std::lock_guard lock(mutex_);
  if (stream_ != stream || is_captured(stream)) return;
  end_.record(stream);
  stream_.reset();
}

}  // namespace lockstep::detail
