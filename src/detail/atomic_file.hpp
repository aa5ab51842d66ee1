#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "detail/file_descriptor.hpp"

namespace lockstep::detail {

/// A file that replaces the one at `path` at once and as a whole, or not at all: written beside it under
/// another name, and renamed when it is complete and on the disk. Without `commit` the destructor removes it;
/// what a killed process leaves is found by remove_abandoned_files.
class AtomicFile {
 public:
  /// @param what  the operation, for messages.
  /// @throws NotFound  there is no such folder. @throws Error  the file cannot be made.
  AtomicFile(std::filesystem::path path, std::string_view what);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. @throws Error  names the file and what the system says, as "No space left on device".
  void write(const void* data, std::size_t size_bytes);

  /// Puts the file in place, where it survives a power cut. @throws Error  as write.
  void commit();

  const std::filesystem::path& temporary_path() const noexcept { return temporary_path_; }

 private:
  void open();
  [[noreturn]] void fail(std::string_view step, int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;  // empty: there is none any more
  std::string what_;
  FileDescriptor file_;  // locked, which tells the living from the abandoned
};

/// Removes from the folder the temporary files whose process has ended. Those that cannot be removed stay.
void remove_abandoned_files(const std::filesystem::path& directory) noexcept;

}  // namespace lockstep::detail
