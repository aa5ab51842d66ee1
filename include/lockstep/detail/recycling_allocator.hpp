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

/// Memory of the heap, so aligned, for what every step makes and drops again. What is given back is kept for
/// the next who takes as much: a few blocks by each thread, what these leave over by all together, up to 4
/// MiB of each size and up to 1 MiB each; so that steps that repeat take nothing from the heap, whichever
/// threads take and give back. Thread-safe. @throws std::bad_alloc
void* take_recycled(std::size_t size_bytes);
/// @param size_bytes  as it was taken.
void give_recycled(void* data, std::size_t size_bytes) noexcept;

/// That memory for a container or shared object.
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

/// For lists that live for a step; those that a caller is given are std::vectors.
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
