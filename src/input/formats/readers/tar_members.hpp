#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/formats/byte_source.hpp"

struct archive;

namespace lockstep::detail {

/// A file in an archive that is a part of a sample.
struct TarMember {
  std::string key;        ///< The path up to the first dot of its last component.
  std::string extension;  ///< What comes after that dot, in lower case.
  std::uint64_t position = 0;
  std::uint64_t size_bytes = 0;
  bool is_after_damage = false;  ///< Whether a header before it, and after the last member, was damaged.
};

/// The regular files of a tar archive, plain or compressed by gzip, bzip2, xz or zstd, in their order. Those
/// without a dot, or with a name as "__index__", are no parts of samples and are left out, as in WebDataset.
class TarMembers {
 public:
  /// @throws NotFound, FileFault
  TarMembers(const std::filesystem::path& path, std::string_view what);
  ~TarMembers();
  TarMembers(const TarMembers&) = delete;
  TarMembers& operator=(const TarMembers&) = delete;

  /// The next member; nothing at the end. @throws FileFault  of a record if a damaged header has no member
  /// behind it.
  std::optional<TarMember> next();
  /// Goes to a member of this position, which `next` then returns: at once, or in a compressed archive by
  /// decompressing what is before it. @pre it comes after those that `next` has returned. @throws FileFault
  /// also if there is none.
  void seek(std::uint64_t position);
  /// Reads the member that `next` returned last. @throws FileFault  it is cut short.
  void read(const TarMember& member, void* data);
  [[noreturn]] void fail(std::uint64_t position, std::string reason, bool is_of_record = false) const;

 private:
  struct Free {
    void operator()(archive* handle) const;
  };

  /// Opens the archive's part from a header on.
  void open(std::uint64_t begin);
  static std::intptr_t read_block(archive*, void* self, const void** block);
  static std::int64_t skip_bytes(archive*, void* self, std::int64_t size_bytes);
  /// Throws what is wrong if a call returned `code`, which is not a success.
  [[noreturn]] void fail_with_code();
  bool is_compressed() const;

  InputFileHandle file_;
  /// Of an archive that gzip has compressed: libarchive would not compare its checksum. Else null.
  std::unique_ptr<ByteSource> inflated_;
  std::uint64_t begin_ = 0;  // of the part of the file that is the archive to libarchive
  std::uint64_t next_ = 0;   // position of the next block
  std::vector<char> block_;
  bool has_ended_ = false;
  std::optional<TarMember> sought_;  // read already
  std::exception_ptr fault_;         // of read_block: exceptions do not pass through C
  std::unique_ptr<archive, Free> archive_;
};

}  // namespace lockstep::detail
