#pragma once

#include <cstddef>

#include "detail/input_file.hpp"

namespace lockstep::detail {

/// A whole file in the address space, for reading. It stays when the file is closed or unlinked.
class FileMapping {
 public:
  /// @throws FileFault  the system refuses.
  explicit FileMapping(const InputFile& file);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  const std::byte* data() const noexcept { return static_cast<const std::byte*>(address_); }

 private:
  void* address_ = nullptr;
  std::size_t size_bytes_;
};

}  // namespace lockstep::detail
