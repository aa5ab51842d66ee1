#pragma once

#include <lockstep/detail/mutex.hpp>

namespace lockstep::detail {

/// Of recycled memory, which who holds a leaf may take and give back: taken last.
extern Mutex recycled_memory_mutex;

/// Around a fork, so that it finds them free: all that LeafMutexes share, in one order, and that one.
void lock_leaf_mutexes() noexcept;
void unlock_leaf_mutexes() noexcept;

}  // namespace lockstep::detail
