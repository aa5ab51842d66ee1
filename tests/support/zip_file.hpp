#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

#include "support/npy_file.hpp"

namespace lockstep::test {

/// Compressed bytes; @param window_bits  as zlib's deflateInit2: 31 for gzip, -15 for bare deflate.
inline std::string compressed(std::string_view bytes, int window_bits) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string result(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

inline std::string gzipped(std::string_view bytes) { return compressed(bytes, 31); }

struct ZipEntry {
  std::string name;
  std::string bytes;
  bool deflated = false;
  bool zip64 = false;  ///< The directory gives the sizes and the place as 64-bit numbers.
};

/// Writes a number over the bytes at a place.
template <class T>
void put(std::string& bytes, std::size_t position, T value) {
  bytes.replace(position, sizeof(T), bytes_of(value));
}

/// A zip archive. @param zip64  with the zip64 end of the directory.
inline std::string zip_archive(const std::vector<ZipEntry>& entries, bool zip64 = false) {
  using u16 = std::uint16_t;
  using u32 = std::uint32_t;
  using u64 = std::uint64_t;
  std::string archive, directory;
  for (const ZipEntry& entry : entries) {
    const std::string data = entry.deflated ? compressed(entry.bytes, -15) : entry.bytes;
    const auto crc =
        static_cast<u32>(crc32_z(0, reinterpret_cast<const Bytef*>(entry.bytes.data()), entry.bytes.size()));
    const std::size_t local = archive.size();
    const std::string common =
        bytes_of(u16{0}) + bytes_of(u16(entry.deflated ? 8 : 0)) + std::string(4, '\0') + bytes_of(crc);
    const std::string sizes = bytes_of(u32(data.size())) + bytes_of(u32(entry.bytes.size()));
    archive += "PK\3\4" + bytes_of(u16{20}) + common + sizes + bytes_of(u16(entry.name.size())) +
               bytes_of(u16{0}) + entry.name + data;
    const std::string extra = entry.zip64
                                  ? bytes_of(u16{1}) + bytes_of(u16{24}) + bytes_of(u64{entry.bytes.size()}) +
                                        bytes_of(u64{data.size()}) + bytes_of(u64{local})
                                  : "";
    const std::string wide(8, '\xff');
    directory += "PK\1\2" + bytes_of(u16{20}) + bytes_of(u16{20}) + common + (entry.zip64 ? wide : sizes) +
                 bytes_of(u16(entry.name.size())) + bytes_of(u16(extra.size())) + std::string(10, '\0') +
                 (entry.zip64 ? wide.substr(4) : bytes_of(u32(local))) + entry.name + extra;
  }
  const std::size_t begin = archive.size();
  archive += directory;
  if (zip64) {
    const std::size_t end64 = archive.size();
    archive += "PK\6\6" + bytes_of(u64{44}) + std::string(12, '\0') + bytes_of(u64{entries.size()}) +
               bytes_of(u64{entries.size()}) + bytes_of(u64{directory.size()}) + bytes_of(u64{begin});
    archive += "PK\6\7" + bytes_of(u32{0}) + bytes_of(u64{end64}) + bytes_of(u32{1});
  }
  const u16 count = zip64 ? 0xffff : u16(entries.size());
  archive += "PK\5\6" + bytes_of(u32{0}) + bytes_of(count) + bytes_of(count) +
             bytes_of(zip64 ? 0xffffffffU : u32(directory.size())) +
             bytes_of(zip64 ? 0xffffffffU : u32(begin)) + bytes_of(u16{0});
  return archive;
}

}  // namespace lockstep::test
