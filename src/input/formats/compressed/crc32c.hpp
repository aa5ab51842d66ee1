#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::detail {

/// The CRC-32C (Castagnoli; RFC 3720, appendix B.4) of bytes, by ISA-L, which takes the machine's
/// instructions.
/// @pre check_crc32c.
std::uint32_t crc32c(const void* data, std::size_t size_bytes);

/// @param what  the call, for messages. @throws Unsupported  this build has no ISA-L.
void check_crc32c(std::string_view what);

}  // namespace lockstep::detail
