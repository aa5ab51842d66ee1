#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "input/formats/byte_source.hpp"

/// Zip archives (PKWARE's APPNOTE.TXT 6.3.9): what is read of them is where the members are.
namespace lockstep::detail {

struct ZipMember {
  std::string name;
  bool is_deflated = false;          ///< Else stored.
  std::uint32_t crc = 0;             ///< Of its inflated bytes.
  std::uint64_t size_bytes = 0;      ///< Inflated.
  std::uint64_t header = 0;          ///< Where it begins in the file: its own header.
  std::uint64_t begin = 0, end = 0;  ///< Its bytes in the file.
};

/// The members in the order of the central directory, which has been checked: they are in the file, in front
/// of the directory, apart from each other, named differently, and their own headers say the same.
/// @throws FileFault
std::vector<ZipMember> read_zip_directory(const InputFile& file);

/// A member's bytes, inflated. At their end they are compared with the directory.
class ZipMemberSource final : public ByteSource {
 public:
  ZipMemberSource(const InputFileHandle& file, const ZipMember& member);

  /// Reads what is left. @throws FileFault  other bytes than the directory says.
  void finish();

  std::uint64_t max_left() const noexcept override;
  std::string part() const override { return " of the member"; }

 private:
  std::size_t do_read(std::byte* data, std::size_t size_bytes) override;

  std::unique_ptr<ByteSource> bytes_;
  std::uint64_t num_left_;
  std::uint32_t directory_crc_;
  std::uint32_t crc_ = 0;  // of no bytes
};

}  // namespace lockstep::detail
