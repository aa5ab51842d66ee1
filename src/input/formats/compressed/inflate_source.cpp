#include "input/formats/compressed/inflate_source.hpp"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::uint64_t kMaxHeld = 8 * kMaxInflation;  // of 8 bytes that were read and not yet inflated

}  // namespace

InflateSource::InflateSource(std::unique_ptr<ByteSource> compressed, DeflateForm form)
    : DecompressingSource(std::move(compressed), kMaxInflation, kMaxHeld), form_(form) {
  const int window_bits = form == DeflateForm::gzip   ? 16 + MAX_WBITS
                          : form == DeflateForm::zlib ? MAX_WBITS
                                                      : -MAX_WBITS;
  if (inflateInit2(&stream_, window_bits) != Z_OK) throw std::bad_alloc();
}

InflateSource::~InflateSource() { inflateEnd(&stream_); }

void InflateSource::end_member() {
  if (form_ == DeflateForm::gzip)  // zeros pad blocks, as on tapes
    while (input().starts_with('\0')) take(1);
  if (input().empty()) return end();
  if (form_ != DeflateForm::gzip) fail_compressed("there is more after the compressed data");
  inflateReset(&stream_);
}

std::size_t InflateSource::decompress(std::byte* data, std::size_t size_bytes) {
  const std::string_view in = input();
  if (in.empty()) fail_cut_short();
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));  // it does not write
  stream_.avail_in = static_cast<uInt>(in.size());
  const auto size = static_cast<uInt>(std::min<std::size_t>(size_bytes, 1U << 30));
  stream_.next_out = reinterpret_cast<Bytef*>(data);
  stream_.avail_out = size;
  const int code = inflate(&stream_, Z_NO_FLUSH);
  take(in.size() - stream_.avail_in);
  if (code == Z_STREAM_END)
    end_member();
  else if (code == Z_MEM_ERROR)
    throw std::bad_alloc();
  else if (code != Z_OK && code != Z_BUF_ERROR)
    fail_damaged(stream_.msg ? stream_.msg : "it needs a dictionary");
  return size - stream_.avail_out;
}

}  // namespace lockstep::detail
