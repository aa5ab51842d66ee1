#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <new>

#include <lockstep/detail/recycling_allocator.hpp>

#include "detail/leaf_mutexes.hpp"
#include "detail/sanitizers.hpp"

#if LOCKSTEP_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size) (static_cast<void>(data), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) (static_cast<void>(data), static_cast<void>(size))
#endif

namespace lockstep::detail {

namespace {

// Size classes: blocks of 64, 128, … bytes.
constexpr std::size_t kMinBytes = kRecycledAlignment;
constexpr std::align_val_t kAlignment{kRecycledAlignment};
constexpr std::size_t kNumClasses = 15;
constexpr std::size_t kMaxSharedBytes = std::size_t{4} << 20;  // of each class
constexpr std::size_t kMaxOwnBytes = std::size_t{32} << 10;    // of each class, for each thread
constexpr std::size_t kMaxOwnBlocks = 16;

std::size_t class_of(std::size_t size_bytes) {
  return static_cast<std::size_t>(std::bit_width((size_bytes == 0 ? 0 : size_bytes - 1) / kMinBytes));
}
constexpr std::size_t bytes_of_class(std::size_t size_class) { return kMinBytes << size_class; }
std::size_t max_own_blocks(std::size_t size_class) {
  return std::min(kMaxOwnBlocks, kMaxOwnBytes / bytes_of_class(size_class));
}

struct Block {
  Block* next;
};

struct Blocks {
  Block* first = nullptr;
  std::size_t size = 0;

  void push(Block* block) {
    block->next = first;
    first = block;
    ++size;
  }
  Block* pop() {
    Block* const block = first;
    first = block->next;
    --size;
    return block;
  }
};
using BlocksByClass = std::array<Blocks, kNumClasses>;

// Blocks that no thread keeps for itself; guarded by recycled_memory_mutex.
constinit BlocksByClass shared_blocks;

constinit thread_local BlocksByClass own_blocks;
constinit thread_local bool is_over = false;  // an ending thread may still take and give back blocks

void free_blocks(Blocks& blocks, std::size_t size_class) {
  while (blocks.size > 0) {
    Block* const block = blocks.pop();
    ASAN_UNPOISON_MEMORY_REGION(block, bytes_of_class(size_class));
    ::operator delete(block, kAlignment);
  }
}

/// Moves the thread's next `count` blocks to the shared list.
void share(std::size_t size_class, std::size_t count) {
  Blocks& own = own_blocks[size_class];
  Blocks& all = shared_blocks[size_class];
  Blocks rest;
  {
    const std::lock_guard lock(recycled_memory_mutex);
    const std::size_t max_size = kMaxSharedBytes / bytes_of_class(size_class);
    for (; count > 0; --count) (all.size < max_size ? all : rest).push(own.pop());
  }
  free_blocks(rest, size_class);
}

/// Moves all blocks of a thread to the shared list when it ends.
struct OwnBlocksEnd {
  ~OwnBlocksEnd() {
    for (std::size_t size_class = 0; size_class < kNumClasses; ++size_class)
      share(size_class, own_blocks[size_class].size);
    is_over = true;
  }
};
thread_local OwnBlocksEnd own_blocks_end;

void fetch(std::size_t size_class, std::size_t count) {
  static_cast<void>(&own_blocks_end);  // constructs it on the first use
  Blocks& all = shared_blocks[size_class];
  const std::lock_guard lock(recycled_memory_mutex);
  for (; count > 0 && all.size > 0; --count) own_blocks[size_class].push(all.pop());
}

/// The number of blocks that move between a thread's list and the shared one at a time.
std::size_t batch(std::size_t size_class) {
  return is_over ? 1 : std::max<std::size_t>(1, max_own_blocks(size_class) / 2);
}

}  // namespace

void* take_recycled(std::size_t size_bytes) {
  const std::size_t size_class = class_of(size_bytes);
  if (size_class >= kNumClasses) return ::operator new(size_bytes, kAlignment);
  Blocks& own = own_blocks[size_class];
  if (own.size == 0) fetch(size_class, batch(size_class));
  if (own.size == 0) return ::operator new(bytes_of_class(size_class), kAlignment);
  Block* const block = own.pop();
  ASAN_UNPOISON_MEMORY_REGION(block, bytes_of_class(size_class));
  return block;
}

void give_recycled(void* data, std::size_t size_bytes) noexcept {
  const std::size_t size_class = class_of(size_bytes);
  if (size_class >= kNumClasses) return ::operator delete(data, kAlignment);
  static_cast<void>(&own_blocks_end);  // constructs it on the first use
  Blocks& own = own_blocks[size_class];
  Block* const block = ::new (data) Block{};
  ASAN_POISON_MEMORY_REGION(block + 1, bytes_of_class(size_class) - sizeof(Block));
  own.push(block);
  if (own.size > (is_over ? 0 : max_own_blocks(size_class))) share(size_class, batch(size_class));
}

}  // namespace lockstep::detail
