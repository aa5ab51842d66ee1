#include "input/formats/block_reader.hpp"

#include <algorithm>
#include <cstring>

#include "input/formats/buffer_bytes.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kBlockBytes = buffer_bytes(1 << 17);

}  // namespace

bool BlockReader::fill() {
  const std::size_t size = end_ - begin_;
  const auto most = static_cast<std::size_t>(  // one more than there can be, so that the end is found
                        std::min<std::uint64_t>(source_->max_left(), std::uint64_t{1} << 62)) +
                    size + 1;
  if (size == capacity_) {
    const std::size_t capacity = std::min(std::max(kBlockBytes, 2 * capacity_), most);
    auto larger = std::make_unique_for_overwrite<char[]>(capacity + kPaddingBytes);
    std::memset(larger.get() + capacity, 0, kPaddingBytes);
    if (size > 0) std::memcpy(larger.get(), buffer_.get() + begin_, size);
    buffer_ = std::move(larger);
    capacity_ = capacity;
  } else if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, size);
  }
  begin_ = 0;
  end_ = size;
  const std::size_t num_read = source_->read_some(buffer_.get() + size, capacity_ - size);
  end_ += num_read;
  return num_read > 0;
}

}  // namespace lockstep::detail
