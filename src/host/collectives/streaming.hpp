#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::host {

/// Whether a collective that reads and writes `bytes` bytes in all should write past the caches: they exceed
/// the caches, so that no reader would find them there. Streaming stores save reading the destination first.
bool streaming_pays(std::int64_t bytes);

/// memcpy with streaming stores, if the machine has them. end_streaming must follow before another thread
/// reads.
void stream_copy(void* destination, const void* source, std::size_t size_bytes);

/// Orders this thread's streaming stores before its later stores.
void end_streaming();

}  // namespace lockstep::host
