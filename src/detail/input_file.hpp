#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "detail/file_descriptor.hpp"

/// Files from elsewhere. What they say of themselves is not trusted.
namespace lockstep::detail {

/// What is wrong with a file, and where. Whoever knows the file makes an Error of it.
struct FileFault {
  std::uint64_t position;  ///< Bytes from the start, of the file or of what `part` says.
  std::string reason;
  std::string part = {};  ///< What has the byte, as " of the inflated data"; empty: the file.
  int code = 0;           ///< The system's error; 0: the file itself is not as it should be.
};

/// A regular file, open for reading. It stays the same file when another one takes its name.
class InputFile {
 public:
  /// @param what  the operation, for messages.
  /// @throws NotFound  it cannot be opened. @throws FileFault  it is not a regular file.
  InputFile(const std::filesystem::path& path, std::string_view what);

  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  /// @throws FileFault  it cannot be read, or was cut short meanwhile. @pre the bytes are in the file.
  void read_at(std::uint64_t position, void* data, std::size_t size_bytes) const;

 private:
  FileDescriptor file_;
  std::uint64_t size_bytes_ = 0;
};
using InputFileHandle = std::shared_ptr<const InputFile>;  // owners: the sources that read it

}  // namespace lockstep::detail
