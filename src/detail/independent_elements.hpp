#pragma once

/// Before a loop whose outputs may be exactly its inputs: nothing is carried from one element to the next.
#if defined(__clang__)
#define LOCKSTEP_INDEPENDENT_ELEMENTS _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_INDEPENDENT_ELEMENTS _Pragma("GCC ivdep")
#endif
