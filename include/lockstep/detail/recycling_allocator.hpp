#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// A cache line.
inline constexpr std::size_t kRecycledAlignment = 64;

/// Takes heap memory, aligned to kRecycledAlignment, for objects that every step makes and drops. Released
/// blocks are kept for the next request of their size: a few per thread, the rest in a common list of up to 4
/// MiB per size and 1 MiB per block. Repeated steps thus take nothing from the heap, whichever threads take
/// and give back. Thread-safe. @throws std::bad_alloc
void* take_recycled(std::size_t size_bytes);
/// @param size_bytes  the size given to take_recycled.
void give_recycled(void* data, std::size_t size_bytes) noexcept;

/// Recycled memory for a container or shared object.
template <class T>
class RecyclingAllocator {
 public:
  using value_type = T;

  RecyclingAllocator() = default;
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>&) noexcept {}

  T* allocate(std::size_t n) {
    static_assert(alignof(T) <= kRecycledAlignment);
    return static_cast<T*>(take_recycled(n * sizeof(T)));
  }
  void deallocate(T* data, std::size_t n) noexcept { give_recycled(data, n * sizeof(T)); }

  template <class U>
  bool operator==(const RecyclingAllocator<U>&) const noexcept {
    return true;
  }
};

/// A list that lives for one step; lists returned to users are std::vectors.
template <class T>
using RecycledVector = std::vector<T, RecyclingAllocator<T>>;
template <class T>
bool operator==(const RecycledVector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}
template <class Key, class T>
using RecycledMap = std::map<Key, T, std::less<>, RecyclingAllocator<std::pair<const Key, T>>>;
using RecycledString = std::basic_string<char, std::char_traits<char>, RecyclingAllocator<char>>;

}  // namespace lockstep::detail

#pragma GCC visibility pop
