// This is a file of its own so that compilers cannot inline it.
#include "support/num_copies.hpp"

#include <atomic>
#include <cstddef>

// glibc's own, which are given the size of the destination.
extern "C" void* __memcpy_chk(void* to, const void* from, std::size_t size, std::size_t to_size);
extern "C" void* __memmove_chk(void* to, const void* from, std::size_t size, std::size_t to_size);

namespace {
std::atomic<std::int64_t> count{0};

void counted(std::size_t size) {
  const auto bytes = static_cast<std::int64_t>(size);
  if (bytes >= lockstep::test::kLeastCopy) count.fetch_add(bytes, std::memory_order_relaxed);
}
}  // namespace

std::int64_t lockstep::test::num_copied_bytes() { return count; }

extern "C" void* memcpy(void* to, const void* from, std::size_t size) {
  counted(size);
  return __memcpy_chk(to, from, size, size);
}
extern "C" void* memmove(void* to, const void* from, std::size_t size) {
  counted(size);
  return __memmove_chk(to, from, size, size);
}
