// By itself, so that compilers cannot look into what they inline.
#include "support/num_allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> count{0};
}

std::int64_t lockstep::test::num_allocations() { return count; }

void* operator new(std::size_t size) {
  ++count;
  if (void* const data = std::malloc(size)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
