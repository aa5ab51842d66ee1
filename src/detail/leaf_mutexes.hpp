#pragma once

namespace lockstep::detail {

/// Around a fork, so that it finds them free: all that LeafMutexes share, in one order.
void lock_leaf_mutexes() noexcept;
void unlock_leaf_mutexes() noexcept;

}  // namespace lockstep::detail
