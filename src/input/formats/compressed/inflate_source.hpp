#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <zlib.h>

#include "input/formats/compressed/decompressing_source.hpp"

namespace lockstep::detail {

enum class DeflateForm : std::uint8_t { bare, zlib, gzip };

/// The most bytes to which one byte of deflate inflates (zlib's technical details, "Maximum Compression
/// Factor").
inline constexpr std::uint64_t kMaxInflation = 1032;

/// Inflated data: RFC 1951 (bare), RFC 1950 (zlib), or RFC 1952 (gzip) with any number of members; checksums
/// are checked. It ends with the compressed data; any data after it is a fault, except zeros after gzip's
/// members.
class InflateSource final : public DecompressingSource {
 public:
  InflateSource(std::unique_ptr<ByteSource> compressed, DeflateForm form);
  ~InflateSource() override;
  InflateSource(const InflateSource&) = delete;
  InflateSource& operator=(const InflateSource&) = delete;

 private:
  std::size_t decompress(std::byte* data, std::size_t size_bytes) override;
  void end_member();

  DeflateForm form_;
  z_stream stream_{};
};

}  // namespace lockstep::detail
