#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "detail/file_descriptor.hpp"

namespace lockstep::detail {

/// A file that replaces the one at `path` at once and as a whole, or not at all. It is written beside it
/// under another name, and renamed when it is complete and on the disk. Without `commit` the destructor
/// removes it; remove_abandoned_files finds the files that a killed process leaves.
class AtomicFile {
 public:
  /// @param what  the operation, for messages.
  /// @throws NotFound  the folder does not exist. @throws Error  the file cannot be made.
  AtomicFile(std::filesystem::path path, std::string_view what);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. @throws Error  names the file and the system's reason, such as "No space left on device".
  void write(const void* data, std::size_t size_bytes);

  /// Puts the file in place, so that it survives a power cut. @throws Error  as write.
  void commit();

  const std::filesystem::path& temporary_path() const noexcept { return temporary_path_; }

 private:
  void open();
  [[noreturn]] void fail(std::string_view step, int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;  // empty: the temporary file no longer exists
  std::string what_;
  FileDescriptor file_;  // locked while this process lives, so that it does not count as abandoned
};

/// Removes the temporary files of ended processes from the folder. A file that cannot be removed stays.
void remove_abandoned_files(const std::filesystem::path& directory) noexcept;

}  // namespace lockstep::detail
