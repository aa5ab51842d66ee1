#pragma once

#include <cstdint>

namespace lockstep::test {

/// How often the program has taken memory from the heap, on all threads. Link num_allocations.cpp.
std::int64_t num_allocations();

}  // namespace lockstep::test
