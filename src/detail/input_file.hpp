#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "detail/file_descriptor.hpp"

/// Files of unknown origin. Their contents are not trusted.
namespace lockstep::detail {

/// A fault in a file, and its position. The code that knows the file turns it into an Error.
struct FileFault {
  std::uint64_t position;  ///< Bytes from the start of the file or, if given, of `part`.
  std::string reason;
  std::string part = {};      ///< The part with the byte, as " of the decompressed data"; empty: the file.
  int code = 0;               ///< The system's error; 0: the contents are wrong.
  bool is_of_record = false;  ///< Whether the source goes on behind the record with the fault.
};

/// Whether a path may end in a symbolic link. In a folder that others can write to it may lead anywhere.
enum class Links : std::uint8_t { followed, refused };

/// A regular file, open for reading. It stays the same file if another file takes its name.
class InputFile {
 public:
  /// @param what  the operation, for messages.
  /// @throws NotFound  the file cannot be opened. @throws FileFault  it is not a regular file, or a link that
  /// is refused.
  InputFile(const std::filesystem::path& path, std::string_view what, Links links = Links::followed);

  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  int descriptor() const noexcept { return file_.get(); }
  /// @throws FileFault  the file cannot be read, or has been cut short. @pre the bytes are in the file.
  void read_at(std::uint64_t position, void* data, std::size_t size_bytes) const;

 private:
  FileDescriptor file_;
  std::uint64_t size_bytes_ = 0;
};
using InputFileHandle = std::shared_ptr<const InputFile>;  // owners: the sources that read it

}  // namespace lockstep::detail
