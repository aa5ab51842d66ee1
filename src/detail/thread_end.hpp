#pragma once

namespace lockstep::detail {

/// The end of threads, of which std::exit is one for the thread that calls it: thread_local objects are
/// destroyed first, and objects in static variables after them.
class ThreadEnd {
 public:
  /// Lets has_begun tell on this thread.
  static void watch() noexcept;
  /// Whether what watches on this thread, a thread_local object, has been destroyed.
  static bool has_begun() noexcept;
};

}  // namespace lockstep::detail
