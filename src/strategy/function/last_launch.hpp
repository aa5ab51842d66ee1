#pragma once

#include <mutex>
#include <optional>

#include <lockstep/event.hpp>
#include <lockstep/stream.hpp>

namespace lockstep::detail {

/// The last launch of a strategy's graphs on one piece of hardware. The next one follows it, whatever its
/// stream and its function: their collectives share memory. That costs no call where the stream is the same.
/// Thread-safe.
class LastLaunch {
 public:
  explicit LastLaunch(backend::DeviceBackend& device) : end_(device) {}

  /// Before anything is enqueued. @throws ContextError  move_to is impossible, as the last launch's stream is
  /// being captured.
  void require_can_move_to(const StreamRef& stream);
  /// Makes `stream` wait for the last launch where that was elsewhere. The next launch is on `stream`.
  void move_to(const StreamRef& stream);
  /// A graph that was last launched on `stream` goes, after which the stream may go.
  void leave(const StreamRef& stream);

 private:
  std::mutex mutex_;                 // guards the members below
  std::optional<StreamRef> stream_;  // of the last launch; none: end_ is behind it, if there was one
  Event end_;
};

}  // namespace lockstep::detail
