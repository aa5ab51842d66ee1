#include "input/formats/compressed/inflate_source.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "detail/concat.hpp"

namespace lockstep::detail {

InflateSource::InflateSource(std::unique_ptr<ByteSource> compressed, DeflateForm form)
    : compressed_(std::move(compressed)), form_(form) {
  const int window_bits = form == DeflateForm::gzip   ? 16 + MAX_WBITS
                          : form == DeflateForm::zlib ? MAX_WBITS
                                                      : -MAX_WBITS;
  if (inflateInit2(&stream_, window_bits) != Z_OK) throw std::bad_alloc();
}

InflateSource::~InflateSource() { inflateEnd(&stream_); }

std::uint64_t InflateSource::max_left() const noexcept {
  if (ended_) return 0;
  constexpr std::uint64_t kHeldBytes = 8;  // may have been read and not yet inflated
  const std::uint64_t left = compressed_->max_left() + stream_.avail_in + kHeldBytes;
  return left > std::numeric_limits<std::uint64_t>::max() / kMaxInflation
             ? std::numeric_limits<std::uint64_t>::max()
             : left * kMaxInflation;
}

bool InflateSource::fill() {
  if (stream_.avail_in > 0) return true;
  stream_.next_in = buffer_.data();
  stream_.avail_in = static_cast<uInt>(compressed_->read_some(buffer_.data(), buffer_.size()));
  return stream_.avail_in > 0;
}

void InflateSource::fail_compressed(std::string reason) const {
  compressed_->fail(compressed_->position() - stream_.avail_in, std::move(reason));
}

void InflateSource::end_member() {
  if (form_ == DeflateForm::gzip)  // zeros pad blocks, as on tapes
    for (; fill() && *stream_.next_in == 0; --stream_.avail_in) ++stream_.next_in;
  ended_ = !fill();
  if (ended_) return;
  if (form_ != DeflateForm::gzip) fail_compressed("there is more after the compressed data");
  inflateReset(&stream_);
}

std::size_t InflateSource::do_read(std::byte* data, std::size_t size_bytes) {
  std::size_t done = 0;
  while (done < size_bytes && !ended_) {
    if (!fill()) fail_compressed("the compressed data is cut short");
    const auto size = static_cast<uInt>(std::min<std::size_t>(size_bytes - done, 1U << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(data + done);
    stream_.avail_out = size;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    done += size - stream_.avail_out;
    if (code == Z_STREAM_END)
      end_member();
    else if (code == Z_MEM_ERROR)
      throw std::bad_alloc();
    else if (code != Z_OK && code != Z_BUF_ERROR)
      fail_compressed(
          concat("the compressed data is damaged: ", stream_.msg ? stream_.msg : "it needs a dictionary"));
  }
  return done;
}

}  // namespace lockstep::detail
