#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <lockstep/buffer.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/event.hpp>

namespace lockstep::detail {

/// Device memory for tensors of one recurring kind: buffers whose last handle is gone are reused.
/// Thread-safe. Owners: the object that takes memory, and all memory in use.
class RecycledMemory : public std::enable_shared_from_this<RecycledMemory> {
 public:
  /// @param max_free  the number of unused buffers to keep.
  explicit RecycledMemory(std::size_t max_free) : max_free_(max_free) {}

  /// Takes at least size_bytes for work on `stream`, which waits for the work that was on the buffer's stream
  /// (Buffer::set_stream) when its last owner released it. size_bytes > 0. @throws OutOfMemory
  std::shared_ptr<Buffer> take(std::size_t size_bytes, const StreamRef& stream);
  /// Frees unused buffers, and from now on buffers when they are released.
  void close() noexcept;

 private:
  struct Block {
    Buffer buffer;
    Event released;  // marks the end of its use
  };
  void give_back(std::unique_ptr<Block> block) noexcept;

  std::size_t max_free_;
  LeafMutex mutex_;                           // guards all members below
  std::vector<std::unique_ptr<Block>> free_;  // the least recently released first
  bool closed_ = false;
};

}  // namespace lockstep::detail
