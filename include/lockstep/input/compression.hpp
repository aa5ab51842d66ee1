#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep::readers {

/// How a whole file is compressed. Data is decompressed as it is read, in constant memory.
enum class Compression : std::uint8_t {
  none,
  gzip,  ///< RFC 1952, any number of members.
  zlib,  ///< RFC 1950.
  zstd,  ///< RFC 8878, any number of frames, whose windows have up to 128 MiB. Needs libzstd.
};

}  // namespace lockstep::readers

#pragma GCC visibility pop
