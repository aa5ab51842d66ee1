#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "input/formats/compressed/decompressing_source.hpp"

struct ZSTD_DCtx_s;

namespace lockstep::detail {

/// Decompressed data: RFC 8878 with any number of frames, whose checksums are checked. Memory is bounded by
/// the largest window that is allowed, 128 MiB.
class ZstdSource final : public DecompressingSource {
 public:
  /// @param what  the call, for messages. @throws Unsupported  this build has no libzstd.
  ZstdSource(std::unique_ptr<ByteSource> compressed, std::string_view what);
  ~ZstdSource() override;
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

 private:
  std::size_t decompress(std::byte* data, std::size_t size_bytes) override;

  ZSTD_DCtx_s* context_ = nullptr;
  bool is_in_frame_ = false;
};

}  // namespace lockstep::detail
