#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <lockstep/buffer.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/event.hpp>

namespace lockstep::detail {

/// Device memory of a kind of tensor that comes again and again: what the last handle lets go is given out
/// again. Thread-safe. Owners: who takes memory, and all memory that is out.
class RecycledMemory : public std::enable_shared_from_this<RecycledMemory> {
 public:
  /// @param max_free  how many buffers to keep that nobody uses.
  explicit RecycledMemory(std::size_t max_free) : max_free_(max_free) {}

  /// At least size_bytes for work on `stream`, which is made to wait for the work that was on the buffer's
  /// stream (Buffer::set_stream) when its last owner let it go. size_bytes > 0. @throws OutOfMemory
  std::shared_ptr<Buffer> take(std::size_t size_bytes, const StreamRef& stream);
  /// Frees what nobody uses, and from now on what is let go.
  void close() noexcept;

 private:
  struct Block {
    Buffer buffer;
    Event released;  // marks the end of its use
  };
  void give_back(std::unique_ptr<Block> block) noexcept;

  std::size_t max_free_;
  LeafMutex mutex_;                           // guards all below
  std::vector<std::unique_ptr<Block>> free_;  // the one let go first in front
  bool closed_ = false;
};

}  // namespace lockstep::detail
