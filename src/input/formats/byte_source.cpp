#include "input/formats/byte_source.hpp"

#include <algorithm>
#include <cstring>

#include "detail/expects.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;

}  // namespace

void ByteSource::read(void* data, std::uint64_t size_bytes, std::string_view what) {
  const std::uint64_t begin = position_;
  const std::size_t num_read = read_some(data, size_bytes);
  if (num_read < size_bytes)
    fail(begin, concat(what, " has ", size_bytes, " bytes, but ", whole(), " ends after ", num_read));
}

void ByteSource::skip(std::uint64_t size_bytes, std::string_view what) {
  check_left(size_bytes, what);
  if (do_skip(size_bytes)) {
    position_ += size_bytes;
    return;
  }
  const std::uint64_t begin = position_;
  std::vector<std::byte> skipped(static_cast<std::size_t>(std::min<std::uint64_t>(size_bytes, kBufferBytes)));
  for (std::uint64_t left = size_bytes; left > 0;) {
    const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left, skipped.size()));
    const std::size_t num_read = read_some(skipped.data(), wanted);
    left -= num_read;
    if (num_read < wanted)
      fail(begin,
           concat(what, " has ", size_bytes, " bytes, but ", whole(), " ends after ", size_bytes - left));
  }
}

void ByteSource::check_left(std::uint64_t size_bytes, std::string_view what) const {
  if (size_bytes > max_left())
    fail(position_, concat(what, " has ", size_bytes, " bytes, but ", whole(), " ends after ", max_left()));
}

void ByteSource::expect_end(std::string_view what) {
  const std::uint64_t begin = position_;
  std::byte byte;
  if (read_some(&byte, 1) > 0) fail(begin, concat("there is more after ", what));
}

std::size_t FileSource::do_read(std::byte* data, std::size_t size_bytes) {
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(size_bytes, max_left()));
  std::uint64_t from = position();
  std::size_t done = 0;
  while (done < wanted) {
    if (next_ == buffer_.size() && wanted - done >= kBufferBytes) {
      file_->read_at(from, data + done, wanted - done);
      ahead_bytes_ = kLeastAheadBytes;
      return wanted;
    }
    if (next_ == buffer_.size()) {
      buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(ahead_bytes_, end_ - from)));
      ahead_bytes_ = std::min(2 * ahead_bytes_, kBufferBytes);
      next_ = buffer_.size();  // the buffer is empty if do_read throws
      file_->read_at(from, buffer_.data(), buffer_.size());
      next_ = 0;
    }
    const std::size_t size = std::min(wanted - done, buffer_.size() - next_);
    std::memcpy(data + done, buffer_.data() + next_, size);
    next_ += size;
    done += size;
    from += size;
  }
  return wanted;
}

void append_within(std::string& text, std::string_view more, std::uint64_t max_bytes) {
  const std::size_t size = text.size() + more.size();
  if (size > text.capacity()) {
    std::string larger;  // a new string: reserve on a string with contents would take twice as much
    larger.reserve(std::max(size, static_cast<std::size_t>(std::min<std::uint64_t>(2 * size, max_bytes))));
    larger = text;
    text = std::move(larger);
  }
  text += more;
}

}  // namespace lockstep::detail
