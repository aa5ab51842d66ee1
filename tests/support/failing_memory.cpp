// This is a file of its own so that compilers cannot inline it.
#include "support/failing_memory.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <lockstep/detail/recycling_allocator.hpp>

namespace {

std::atomic<std::int64_t> heap_requests_left{-1}, device_requests_left{-1};  // -1: no end
std::atomic<bool> failed{false};

/// Whether this request fails: the last of those that are left, or a later one.
bool runs_out(std::atomic<std::int64_t>& left, bool for_ever) {
  std::int64_t now = left;
  while (now >= 0) {
    if (now == 0) return for_ever && (failed = true);
    if (left.compare_exchange_weak(now, now - 1)) return now == 1 && (failed = true);
  }
  return false;
}

void* allocate(std::size_t size) {
  if (!runs_out(heap_requests_left, false))
    if (void* const data = std::malloc(size)) return data;
  throw std::bad_alloc();
}

void* allocate(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  if (!runs_out(heap_requests_left, false))
    if (void* const data = std::aligned_alloc(step, (size + step - 1) / step * step)) return data;
  throw std::bad_alloc();
}

}  // namespace

namespace lockstep::test {

FailingMemory::FailingMemory(Memory memory, std::int64_t n) {
  failed = false;
  (memory == Memory::heap ? heap_requests_left : device_requests_left) = n;
}
FailingMemory::~FailingMemory() { heap_requests_left = device_requests_left = -1; }

bool FailingMemory::has_failed() { return failed; }

}  // namespace lockstep::test

// Replaces the library's allocator: it keeps nothing, so that every request can fail.
constexpr std::align_val_t kAlignment{lockstep::detail::kRecycledAlignment};
void* lockstep::detail::take_recycled(std::size_t size_bytes) {
  return ::operator new(size_bytes, kAlignment);
}
void lockstep::detail::give_recycled(void* data, std::size_t) noexcept {
  ::operator delete(data, kAlignment);
}

void* operator new(std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, alignment); }
// Sanitizers have an operator of their own, which does not call the others.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return allocate(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }

// The host's devices allocate by this function.
extern "C" int posix_memalign(void** data, std::size_t alignment, std::size_t size) noexcept {
  if (runs_out(device_requests_left, true)) return ENOMEM;
  *data = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  return *data == nullptr ? ENOMEM : 0;
}
