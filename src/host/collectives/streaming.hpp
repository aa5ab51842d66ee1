#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::host {

/// Whether writing `bytes` should pass the caches by: more than they hold, so that nobody will find them
/// there. Such stores save reading the destination first.
bool streaming_pays(std::int64_t bytes);

/// memcpy with stores that pass the caches by, where the machine has them. Follow it by end_streaming before
/// anyone else reads.
void stream_copy(void* destination, const void* source, std::size_t size_bytes);

/// Orders this thread's streaming stores before its later stores.
void end_streaming();

}  // namespace lockstep::host
