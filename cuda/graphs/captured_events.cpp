#include "graphs/captured_events.hpp"

namespace lockstep::cuda {

CapturedEvents& CapturedEvents::instance() {
  static CapturedEvents& events = *new CapturedEvents();
  return events;
}

void CapturedEvents::note(cudaEvent_t event, unsigned long long capture) {
  if (capture == 0 && is_empty_) return;
  const std::lock_guard lock(mutex_);
  if (capture != 0)
    captures_[event] = capture;
  else
    captures_.erase(event);
  is_empty_ = captures_.empty();
}

unsigned long long CapturedEvents::capture_of(cudaEvent_t event) {
  if (is_empty_) return 0;
  const std::lock_guard lock(mutex_);
  const auto found = captures_.find(event);
  return found == captures_.end() ? 0 : found->second;
}

}  // namespace lockstep::cuda
