#pragma once

#pragma GCC visibility push(default)

namespace lockstep {

/// The number of threads on which `map` and `interleave` work, and the order of their results.
struct ParallelOptions {
  /// 1: the functions run on the thread that takes the elements. More: they run on this many threads of each
  /// pass, which work ahead by as many elements and call a function concurrently. 1 to 1024.
  int num_parallel_calls = 1;
  /// Whether elements and exceptions come in the order that a single thread gives; if not, they come as they
  /// are ready.
  bool deterministic = true;
};

}  // namespace lockstep

#pragma GCC visibility pop
