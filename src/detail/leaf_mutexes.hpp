#pragma once

#include <lockstep/detail/mutex.hpp>

namespace lockstep::detail {

/// The mutex of recycled memory. The holder of a leaf mutex may take and give back such memory, so this one
/// is taken last.
extern Mutex recycled_memory_mutex;

/// Lock and unlock all leaf mutexes in one order, and then that of recycled memory, around a fork, so that
/// the child finds them free.
void lock_leaf_mutexes() noexcept;
void unlock_leaf_mutexes() noexcept;

}  // namespace lockstep::detail
