#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <zstd.h>

namespace lockstep::test {

/// A zstd frame with a checksum.
inline std::string zstd_frame(std::string_view bytes) {
  std::string result(ZSTD_compressBound(bytes.size()), '\0');
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  const std::size_t size = ZSTD_compress2(context, result.data(), result.size(), bytes.data(), bytes.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size)) throw std::runtime_error("ZSTD_compress2");
  result.resize(size);
  return result;
}

}  // namespace lockstep::test
