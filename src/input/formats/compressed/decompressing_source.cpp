#include "input/formats/compressed/decompressing_source.hpp"

#include <limits>
#include <utility>

#include "detail/concat.hpp"
#include "input/formats/buffer_bytes.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kBufferBytes = buffer_bytes(1 << 16);

}  // namespace

DecompressingSource::DecompressingSource(std::unique_ptr<ByteSource> compressed, std::uint64_t max_expansion,
                                         std::uint64_t max_held)
    : compressed_(std::move(compressed)),
      max_expansion_(max_expansion),
      max_held_(max_held),
      buffer_(kBufferBytes) {}

std::uint64_t DecompressingSource::max_left() const noexcept {
  if (ended_) return 0;
  const std::uint64_t left = compressed_->max_left() + (end_ - next_);
  if (left > (std::numeric_limits<std::uint64_t>::max() - max_held_) / max_expansion_)
    return std::numeric_limits<std::uint64_t>::max();
  return left * max_expansion_ + max_held_;
}

std::string_view DecompressingSource::input() {
  if (next_ == end_) {
    next_ = end_ = 0;
    end_ = compressed_->read_some(buffer_.data(), buffer_.size());
  }
  return {buffer_.data() + next_, end_ - next_};
}

void DecompressingSource::fail_compressed(std::string reason) const {
  compressed_->fail(compressed_->position() - (end_ - next_), std::move(reason));
}

void DecompressingSource::fail_damaged(std::string_view reason) const {
  fail_compressed(concat("the compressed data is damaged: ", reason));
}

void DecompressingSource::fail_cut_short() const { fail_compressed("the compressed data is cut short"); }

std::size_t DecompressingSource::do_read(std::byte* data, std::size_t size_bytes) {
  std::size_t done = 0;
  while (done < size_bytes && !ended_) done += decompress(data + done, size_bytes - done);
  return done;
}

}  // namespace lockstep::detail
