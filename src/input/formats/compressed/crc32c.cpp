#include "input/formats/compressed/crc32c.hpp"

#include <algorithm>

#include "input/formats/absent_format.hpp"

#ifdef LOCKSTEP_HAS_ISAL
#include <isa-l/crc.h>
#endif

namespace lockstep::detail {

#ifdef LOCKSTEP_HAS_ISAL

std::uint32_t crc32c(const void* data, std::size_t size_bytes) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // a call takes an int
  auto* next = static_cast<unsigned char*>(const_cast<void*>(data));
  std::uint32_t crc = ~std::uint32_t{0};
  while (size_bytes > 0) {
    const std::size_t size = std::min(size_bytes, kMostBytes);
    crc = crc32_iscsi(next, static_cast<int>(size), crc);
    next += size;
    size_bytes -= size;
  }
  return ~crc;
}

void check_crc32c(std::string_view) {}

#else

std::uint32_t crc32c(const void*, std::size_t) { return 0; }

void check_crc32c(std::string_view what) { raise_absent_format(what, "ISA-L", "libisal-dev"); }

#endif

}  // namespace lockstep::detail
