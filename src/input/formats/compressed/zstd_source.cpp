#include "input/formats/compressed/zstd_source.hpp"

#include <cstdint>
#include <new>
#include <utility>

#include "detail/concat.hpp"
#include "input/formats/absent_format.hpp"

#ifdef LOCKSTEP_HAS_ZSTD

#include <zstd.h>

namespace lockstep::detail {
namespace {

constexpr int kMaxWindowLog = 27;  // zstd's own default, ZSTD_WINDOWLOG_LIMIT_DEFAULT
/// The most bytes to which one byte decompresses: a block of one repeated byte has 4 bytes for up to 128 KiB
/// (RFC 8878, 3.1.1.2).
constexpr std::uint64_t kMaxExpansion = (128 << 10) / 4;

}  // namespace

// What has been read and not yet given is a window at most.
ZstdSource::ZstdSource(std::unique_ptr<ByteSource> compressed, std::string_view)
    : DecompressingSource(std::move(compressed), kMaxExpansion, std::uint64_t{1} << kMaxWindowLog),
      context_(ZSTD_createDCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kMaxWindowLog);
}

ZstdSource::~ZstdSource() { ZSTD_freeDCtx(context_); }

std::size_t ZstdSource::decompress(std::byte* data, std::size_t size_bytes) {
  const std::string_view bytes = input();
  if (bytes.empty() && !is_in_frame_) {
    end();
    return 0;
  }
  ZSTD_outBuffer out{data, size_bytes, 0};
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  const std::size_t left = ZSTD_decompressStream(context_, &out, &in);
  take(in.pos);
  if (ZSTD_isError(left)) fail_damaged(ZSTD_getErrorName(left));
  is_in_frame_ = left != 0;
  if (bytes.empty() && out.pos == 0 && is_in_frame_) fail_cut_short();
  return out.pos;
}

}  // namespace lockstep::detail

#else

namespace lockstep::detail {

ZstdSource::ZstdSource(std::unique_ptr<ByteSource> compressed, std::string_view what)
    : DecompressingSource(std::move(compressed), 1, 0) {
  raise_absent_format(concat(what, " of zstd"), "libzstd", "libzstd-dev");
}
ZstdSource::~ZstdSource() = default;
std::size_t ZstdSource::decompress(std::byte*, std::size_t) { return 0; }

}  // namespace lockstep::detail

#endif
