#include "strategy/function/result_memory.hpp"

#include <lockstep/detail/recycling_allocator.hpp>

namespace lockstep::detail {

Tensor ResultMemory::take(const StreamRef& stream) {
  const auto of = [this](std::shared_ptr<Buffer> buffer) {
    TensorView view = view_;
    view.data = buffer->data();
    return Tensor::adopt(std::move(buffer), std::move(view));
  };
  for (const std::shared_ptr<Buffer>& buffer : buffers_) {
    // Work on other streams may still use what was moved there.
    if (buffer == nullptr || buffer.use_count() > 1 || buffer->stream() != stream) continue;
    static_cast<void>(std::shared_ptr(buffer));  // its end acquires what the former owners did
    return of(buffer);
  }
  auto made = std::allocate_shared<Buffer>(RecyclingAllocator<Buffer>(),
                                           static_cast<std::size_t>(view_.nbytes()), stream);
  buffers_[oldest_] = made;
  oldest_ = (oldest_ + 1) % buffers_.size();
  return of(std::move(made));
}

}  // namespace lockstep::detail
