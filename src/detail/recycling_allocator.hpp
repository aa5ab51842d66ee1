#pragma once

#include <cstddef>
#include <new>

namespace lockstep::detail {

/// Memory of single objects, which the thread that frees them keeps for its next ones, up to a number.
template <class T>
class RecyclingAllocator {
 public:
  using value_type = T;

  RecyclingAllocator() = default;
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>&) noexcept {}

  T* allocate(std::size_t n) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ && sizeof(T) >= sizeof(Block));
    if (n != 1 || free_blocks == nullptr) return static_cast<T*>(::operator new(n * sizeof(T)));
    Block* const block = free_blocks;
    free_blocks = block->next;
    --num_free;
    return reinterpret_cast<T*>(block);
  }
  void deallocate(T* data, std::size_t n) noexcept {
    if (n != 1 || num_free == kMaxFree) return ::operator delete(data);
    static_cast<void>(&list_owner);  // made on its first use
    free_blocks = ::new (static_cast<void*>(data)) Block{free_blocks};
    ++num_free;
  }

  template <class U>
  bool operator==(const RecyclingAllocator<U>&) const noexcept {
    return true;
  }

 private:
  static constexpr int kMaxFree = 64;
  struct Block {
    Block* next;
  };
  struct ListOwner {
    ~ListOwner() {
      while (free_blocks != nullptr) {
        Block* const next = free_blocks->next;
        ::operator delete(free_blocks);
        free_blocks = next;
      }
      num_free = kMaxFree;  // a thread that ends may free objects after this one
    }
  };
  static inline thread_local Block* free_blocks = nullptr;
  static inline thread_local int num_free = 0;
  static inline thread_local ListOwner list_owner;
};

}  // namespace lockstep::detail
