#pragma once

namespace lockstep::detail {

/// Tells whether the calling thread is ending; std::exit counts as the end of its caller. thread_local
/// objects are destroyed first, static objects after them.
class ThreadEnd {
 public:
  /// Enables has_begun on this thread.
  static void watch() noexcept;
  /// Whether this thread's watching thread_local object has been destroyed.
  static bool has_begun() noexcept;
};

}  // namespace lockstep::detail
