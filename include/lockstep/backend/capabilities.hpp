#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// What a backend can do beyond the required operations. Without a capability the core uses a slower path
/// that is also correct.
struct Capabilities {
  /// Streams run asynchronously. False: every call has finished its work when it returns.
  bool asynchronous = false;
  /// The host can read and write device memory directly.
  bool host_accessible = false;
  /// Communicators pack small tensors of a reduced batch themselves. False: the core does where options ask
  /// for it.
  bool packs = false;
  /// The f8 types take part in kernels and collectives.
  bool f8 = false;
  /// Work can be captured into a graph.
  bool capture = false;
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
