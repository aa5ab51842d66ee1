#include "detail/input_file.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {
namespace {

[[noreturn]] void throw_unreadable(std::uint64_t position) {
  const int code = errno;
  throw FileFault{position, "it cannot be read: " + std::generic_category().message(code), {}, code};
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path, std::string_view what, Links links) {
  const int no_follow = links == Links::refused ? O_NOFOLLOW : 0;
  // Opened without blocking, so that a pipe does not wait for its writer.
  file_ = FileDescriptor(
      retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | no_follow); }));
  if (!file_.is_open() && errno == ELOOP && links == Links::refused)
    throw FileFault{0, "it is a symbolic link, which may lead to another's file"};
  LOCKSTEP_EXPECTS(file_.is_open(), NotFound, what, ": ", path,
                   " cannot be opened: ", std::generic_category().message(errno), ". Check the path.");
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) throw_unreadable(0);
  if (!S_ISREG(status.st_mode)) throw FileFault{0, "it is not a regular file"};
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  char byte = 0;
  if (size_bytes_ > 0) return;
  const auto num_read = retry_interrupted([&] { return ::pread(file_.get(), &byte, 1, 0); });
  if (num_read < 0) throw_unreadable(0);
  if (num_read > 0)
    throw FileFault{0, "it has a size of 0, but bytes, as files of the kernel's do. Copy it to a disk"};
}

void InputFile::read_at(std::uint64_t position, void* data, std::size_t size_bytes) const {
  auto* next = static_cast<std::byte*>(data);
  while (size_bytes > 0) {
    const auto num_read = retry_interrupted(
        [&] { return ::pread(file_.get(), next, size_bytes, static_cast<off_t>(position)); });
    if (num_read < 0) throw_unreadable(position);
    if (num_read == 0) throw FileFault{position, "the file was cut short while it was read"};
    next += num_read;
    position += static_cast<std::uint64_t>(num_read);
    size_bytes -= static_cast<std::size_t>(num_read);
  }
}

}  // namespace lockstep::detail
