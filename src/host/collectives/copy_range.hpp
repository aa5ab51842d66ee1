#pragma once

#include <cstdint>
#include <span>

namespace lockstep::host {

/// Copies `size_bytes` bytes to every destination that is neither null nor the source itself, reading memory
/// once.
/// @param streaming  whether to use streaming stores, which bypass the caches.
void copy_range(const void* source, std::int64_t size_bytes, std::span<void* const> destinations,
                bool streaming);

}  // namespace lockstep::host
