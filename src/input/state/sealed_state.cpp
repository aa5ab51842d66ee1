#include "input/state/sealed_state.hpp"

#include <cstring>

#include <zlib.h>

#include "detail/concat.hpp"
#include "input/formats/byte_source.hpp"

namespace lockstep::detail {
namespace {

constexpr std::string_view kMagic = "lockstep state ";
constexpr char kVersion = '1';
constexpr std::size_t kHeadBytes = kMagic.size() + 1, kCrcBytes = 4;

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

IteratorState seal(std::string_view content) {
  std::string bytes(kMagic);
  bytes.reserve(kHeadBytes + content.size() + kCrcBytes);
  bytes += kVersion;
  bytes += content;
  const std::uint32_t crc = crc_of(bytes);
  bytes.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  const auto* const data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

std::string_view unseal(const IteratorState& state) {
  const std::string_view bytes(reinterpret_cast<const char*>(state.data()), state.size());
  if (bytes.size() < kHeadBytes + kCrcBytes)
    throw FileFault{0, concat("it has ", bytes.size(), " bytes, too few for a state")};
  if (!bytes.starts_with(kMagic)) throw FileFault{0, "it does not begin as states of iterators do"};
  if (bytes[kMagic.size()] != kVersion)
    throw FileFault{kMagic.size(), concat("it is of version ", bytes[kMagic.size()], ", not of ", kVersion)};
  const std::string_view sealed = bytes.substr(0, bytes.size() - kCrcBytes);
  std::uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + sealed.size(), sizeof(crc));
  if (kComparesChecksums && crc != crc_of(sealed))
    throw FileFault{sealed.size(), "the bytes before do not have this checksum: it was cut short or changed"};
  return sealed.substr(kHeadBytes);
}

}  // namespace lockstep::detail
