#pragma once

/// Put this before a loop whose outputs may be exactly its inputs: its iterations do not depend on each
/// other.
#if defined(__clang__)
#define LOCKSTEP_INDEPENDENT_ELEMENTS _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_INDEPENDENT_ELEMENTS _Pragma("GCC ivdep")
#endif
