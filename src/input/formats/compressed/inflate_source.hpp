#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <zlib.h>

#include "input/formats/byte_source.hpp"

namespace lockstep::detail {

enum class DeflateForm : std::uint8_t { bare, zlib, gzip };

/// The most bytes to which one byte of deflate inflates (zlib's technical details, "Maximum Compression
/// Factor").
inline constexpr std::uint64_t kMaxInflation = 1032;

/// Inflated data: RFC 1951 (bare), RFC 1950 (zlib), or RFC 1952 (gzip) with any number of members; checksums
/// are checked. It ends with the compressed data; any data after it is a fault, except zeros after gzip's
/// members.
class InflateSource final : public ByteSource {
 public:
  InflateSource(std::unique_ptr<ByteSource> compressed, DeflateForm form);
  ~InflateSource() override;
  InflateSource(const InflateSource&) = delete;
  InflateSource& operator=(const InflateSource&) = delete;

  std::uint64_t max_left() const noexcept override;
  std::string part() const override { return " of the inflated data"; }

 private:
  std::size_t do_read(std::byte* data, std::size_t size_bytes) override;
  /// @return false at the end of the file.
  bool fill();
  void end_member();
  [[noreturn]] void fail_compressed(std::string reason) const;

  std::unique_ptr<ByteSource> compressed_;
  DeflateForm form_;
  bool ended_ = false;
  z_stream stream_{};
  std::array<unsigned char, 1 << 14> buffer_;
};

}  // namespace lockstep::detail
