#include "input/rows/recycled_memory.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace lockstep::detail {

std::shared_ptr<Buffer> RecycledMemory::take(std::size_t size_bytes, const StreamRef& stream) {
  std::unique_ptr<Block> block;
  {
    const std::scoped_lock lock(mutex_);
    const auto fits = [&](const auto& free) { return free->buffer.size_bytes() >= size_bytes; };
    auto found = std::find_if(free_.begin(), free_.end(), fits);
    if (found == free_.end() && !free_.empty())
      found = free_.begin();  // too small: it makes room for a larger one
    if (found != free_.end()) {
      block = std::move(*found);
      free_.erase(found);
    }
  }
  if (block && block->buffer.size_bytes() < size_bytes) block.reset();
  if (block) {
    stream.wait(block->released);
    block->buffer.set_stream(stream);
  } else {
    block = std::make_unique<Block>(Block{Buffer(size_bytes, stream), Event(stream.device_backend())});
  }
  Buffer* const buffer = &block->buffer;
  return {buffer, [memory = shared_from_this(), block = block.release()](Buffer*) {
            memory->give_back(std::unique_ptr<Block>(block));
          }};
}

void RecycledMemory::close() noexcept {
  std::vector<std::unique_ptr<Block>> free;
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  free.swap(free_);
}

void RecycledMemory::give_back(std::unique_ptr<Block> block) noexcept {
  try {
    block->released.record(block->buffer.stream());
    const std::scoped_lock lock(mutex_);
    if (closed_ || free_.size() == max_free_) return;  // the block is freed in its stream's order
    free_.push_back(std::move(block));
  } catch (...) {  // the stream no longer exists, or the list lacks memory: the block is freed as well
  }
}

}  // namespace lockstep::detail
