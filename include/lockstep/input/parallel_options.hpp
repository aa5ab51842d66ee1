#pragma once

#pragma GCC visibility push(default)

namespace lockstep {

/// On how many threads `map` and `interleave` work.
struct ParallelOptions {
  /// 1: on the thread that takes the elements. More: on this many threads of a pass's own, which work ahead
  /// by as many elements; a function is then called from several of them at a time. 1 to 1024.
  int num_parallel_calls = 1;
  /// Whether elements, and exceptions, come in the order that one thread gives; false: as they get ready.
  bool deterministic = true;
};

}  // namespace lockstep

#pragma GCC visibility pop
