#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "input/formats/byte_source.hpp"

/// The directory of zip archives (PKWARE's APPNOTE.TXT 6.3.9): the members and their positions.
namespace lockstep::detail {

struct ZipMember {
  std::string name;
  bool is_deflated = false;          ///< False: stored.
  std::uint32_t crc = 0;             ///< Checksum of the inflated bytes.
  std::uint64_t size_bytes = 0;      ///< Size of the inflated bytes.
  std::uint64_t header = 0;          ///< Position of the member's own header in the file.
  std::uint64_t begin = 0, end = 0;  ///< Range of its bytes in the file.
};

/// The members in the order of the central directory. They have been checked: they lie in the file before the
/// directory, do not overlap, have different names, and agree with their own headers.
/// @throws FileFault
std::vector<ZipMember> read_zip_directory(const InputFile& file);

/// A member's bytes, inflated. At the end they are compared with the directory's checksum.
class ZipMemberSource final : public ByteSource {
 public:
  ZipMemberSource(const InputFileHandle& file, const ZipMember& member);

  /// Reads the remaining bytes. @throws FileFault  the bytes are not those that the directory describes.
  void finish();

  std::uint64_t max_left() const noexcept override;
  std::string part() const override { return " of the member"; }

 private:
  std::size_t do_read(std::byte* data, std::size_t size_bytes) override;

  std::unique_ptr<ByteSource> bytes_;
  std::uint64_t num_left_;
  std::uint32_t directory_crc_;
  std::uint32_t crc_ = 0;  // CRC-32 of no bytes
};

}  // namespace lockstep::detail
