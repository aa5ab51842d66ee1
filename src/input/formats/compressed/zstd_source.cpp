#include "input/formats/compressed/zstd_source.hpp"

#include <limits>
#include <new>
#include <utility>

#include "detail/concat.hpp"
#include "input/formats/absent_format.hpp"

#ifdef LOCKSTEP_HAS_ZSTD

#include <zstd.h>

namespace lockstep::detail {
namespace {

constexpr int kMaxWindowLog = 27;  // zstd's own default, ZSTD_WINDOWLOG_LIMIT_DEFAULT
constexpr std::size_t kBufferBytes = 1 << 16;
/// The most bytes to which one byte decompresses: a block of one repeated byte has 4 bytes for up to 128 KiB
/// (RFC 8878, 3.1.1.2).
constexpr std::uint64_t kMaxExpansion = (128 << 10) / 4;

}  // namespace

ZstdSource::ZstdSource(std::unique_ptr<ByteSource> compressed, std::string_view)
    : compressed_(std::move(compressed)), context_(ZSTD_createDCtx()), buffer_(kBufferBytes) {
  if (context_ == nullptr) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kMaxWindowLog);
}

ZstdSource::~ZstdSource() { ZSTD_freeDCtx(context_); }

std::uint64_t ZstdSource::max_left() const noexcept {
  if (ended_) return 0;
  // What has been read and not yet handed out: the buffer, and a window.
  const std::uint64_t held = (std::uint64_t{1} << kMaxWindowLog);
  const std::uint64_t left = compressed_->max_left() + (end_ - next_);
  if (left > (std::numeric_limits<std::uint64_t>::max() - held) / kMaxExpansion)
    return std::numeric_limits<std::uint64_t>::max();
  return left * kMaxExpansion + held;
}

bool ZstdSource::fill() {
  if (next_ < end_) return true;
  next_ = 0;
  end_ = compressed_->read_some(buffer_.data(), buffer_.size());
  return end_ > 0;
}

void ZstdSource::fail_compressed(std::string reason) const {
  compressed_->fail(compressed_->position() - (end_ - next_), std::move(reason));
}

std::size_t ZstdSource::do_read(std::byte* data, std::size_t size_bytes) {
  ZSTD_outBuffer out{data, size_bytes, 0};
  while (out.pos < out.size && !ended_) {
    const bool has_input = fill();
    if (!has_input && !is_in_frame_) {
      ended_ = true;
      break;
    }
    ZSTD_inBuffer in{buffer_.data(), end_, next_};
    const std::size_t before = out.pos;
    const std::size_t left = ZSTD_decompressStream(context_, &out, &in);
    next_ = in.pos;
    if (ZSTD_isError(left))
      fail_compressed(concat("the compressed data is damaged: ", ZSTD_getErrorName(left)));
    is_in_frame_ = left != 0;
    if (!has_input && out.pos == before && is_in_frame_) fail_compressed("the compressed data is cut short");
  }
  return out.pos;
}

}  // namespace lockstep::detail

#else

namespace lockstep::detail {

ZstdSource::ZstdSource(std::unique_ptr<ByteSource>, std::string_view what) {
  raise_absent_format(concat(what, " of zstd"), "libzstd", "libzstd-dev");
}
ZstdSource::~ZstdSource() = default;
std::uint64_t ZstdSource::max_left() const noexcept { return 0; }
std::size_t ZstdSource::do_read(std::byte*, std::size_t) { return 0; }

}  // namespace lockstep::detail

#endif
