#pragma once

namespace lockstep::cuda {

/// Makes the library's spans NVTX ranges of the domain "lockstep", each with its kind as category and its
/// bytes as payload, if a profiler is attached to the process; else does nothing. Any thread may call, and
/// again.
void observe_spans_for_profilers();

}  // namespace lockstep::cuda
