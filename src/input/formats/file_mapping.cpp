#include "input/formats/file_mapping.hpp"

#include <cerrno>
#include <system_error>

#include <sys/mman.h>

#include "detail/concat.hpp"

namespace lockstep::detail {

FileMapping::FileMapping(const InputFile& file) : size_bytes_(static_cast<std::size_t>(file.size_bytes())) {
  if (size_bytes_ == 0) return;  // the system maps no empty file
  address_ = ::mmap(nullptr, size_bytes_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (address_ == MAP_FAILED) {
    const int code = errno;
    throw FileFault{0, concat("it cannot be mapped: ", std::generic_category().message(code)), {}, code};
  }
}

FileMapping::~FileMapping() {
  if (size_bytes_ > 0) ::munmap(address_, size_bytes_);
}

}  // namespace lockstep::detail
