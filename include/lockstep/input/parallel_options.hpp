#pragma once

#pragma GCC visibility push(default)

namespace lockstep {

/// The number of threads on which `map` and `interleave` work, and the order of their results.
struct ParallelOptions {
  /// As tf.data's AUTOTUNE: a pass begins with one thread, and finds how many it needs from what its threads
  /// and the one that takes elements wait for. After every 16 elements it has one thread more, up to the
  /// number of cores, if at least 4 of them were waited for while all threads were in calls of the function
  /// (with interleave: if the dataset had no element ready); one fewer, down to one, if none was waited for.
  static constexpr int automatic = -1;

  /// 1: the functions run on the thread that takes the elements. More: they run on this many threads of each
  /// pass, which work ahead by as many elements and call a function concurrently. 1 to 1024, or `automatic`.
  int num_parallel_calls = 1;
  /// Whether elements and exceptions come in the order that a single thread gives; if not, they come as they
  /// are ready.
  bool deterministic = true;
};

}  // namespace lockstep

#pragma GCC visibility pop
