#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "input/formats/byte_source.hpp"

struct ZSTD_DCtx_s;

namespace lockstep::detail {

/// Decompressed data: RFC 8878 with any number of frames, whose checksums are checked. Memory is bounded by
/// the largest window that is allowed, 128 MiB.
class ZstdSource final : public ByteSource {
 public:
  /// @param what  the call, for messages. @throws Unsupported  this build has no libzstd.
  ZstdSource(std::unique_ptr<ByteSource> compressed, std::string_view what);
  ~ZstdSource() override;
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  std::uint64_t max_left() const noexcept override;
  std::string part() const override { return " of the decompressed data"; }

 private:
  std::size_t do_read(std::byte* data, std::size_t size_bytes) override;
  /// @return false at the end of the file.
  bool fill();
  [[noreturn]] void fail_compressed(std::string reason) const;

  std::unique_ptr<ByteSource> compressed_;
  ZSTD_DCtx_s* context_ = nullptr;
  std::vector<char> buffer_;
  std::size_t next_ = 0, end_ = 0;  // of the bytes in buffer_ that have not been taken
  bool is_in_frame_ = false;
  bool ended_ = false;
};

}  // namespace lockstep::detail
