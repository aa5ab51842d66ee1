#include "detail/atomic_file.hpp"

#include <atomic>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/names_in_folder.hpp"

namespace lockstep::detail {
namespace {

constexpr std::string_view kPrefix = ".lockstep-";
constexpr std::string_view kSuffix = ".tmp";

std::string describe(int error) { return std::generic_category().message(error); }

/// A name that no other file of this process has. A file of the same name from another machine is skipped.
std::string temporary_name() {
  static std::atomic<unsigned> count{0};
  return std::string(kPrefix) + std::to_string(getpid()) + "-" + std::to_string(count++) +
         std::string(kSuffix);
}

bool is_temporary_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  name.remove_prefix(kPrefix.size());
  return name.find_first_not_of("0123456789-") == name.size() - kSuffix.size();
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, std::string_view what)
    : path_(std::move(path)), what_(what) {
  LOCKSTEP_EXPECTS(path_.has_filename(), InvalidArgument, what_, ": the path ", path_,
                   " names no file. Pass the path of one.");
  std::error_code ignored;
  const auto type = std::filesystem::symlink_status(path_, ignored).type();
  using std::filesystem::file_type;
  LOCKSTEP_EXPECTS(type == file_type::not_found || type == file_type::none || type == file_type::regular ||
                       type == file_type::symlink || type == file_type::directory,
                   InvalidArgument, what_, ": ", path_,
                   " is a device or a pipe, not a file, and would be replaced. Choose another path.");
  open();
}

AtomicFile::~AtomicFile() {
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

void AtomicFile::open() {
  constexpr int kMostTries = 100;  // whoever may read the folder can lock what is in it
  for (int tries = 1; !file_.is_open(); ++tries) {
    temporary_path_ = directory_of(path_) / temporary_name();
    FileDescriptor file(retry_interrupted(
        [&] { return ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
    if (!file.is_open()) {
      const int error = errno;
      temporary_path_.clear();  // the file is not ours
      if (error == EEXIST) continue;
      LOCKSTEP_EXPECTS(error != ENOENT, NotFound, what_, ": ", path_, " cannot be made: there is no folder ",
                       directory_of(path_), ". Create it first.");
      fail("made", error);
    }
    // If the file system has no locks, no file counts as abandoned.
    if (retry_interrupted([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) != 0 &&
        errno == EWOULDBLOCK && tries < kMostTries) {
      ::unlink(temporary_path_.c_str());
      continue;
    }
    // Before it was locked the file looked abandoned, and another process may have removed it.
    struct stat status {};
    if (::fstat(file.get(), &status) == 0 && status.st_nlink == 0) continue;
    file_ = std::move(file);
  }
}

void AtomicFile::write(const void* data, std::size_t size_bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  while (size_bytes > 0) {
    const auto written = retry_interrupted([&] { return ::write(file_.get(), next, size_bytes); });
    if (written < 0) fail("written", errno);
    next += written;
    size_bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (retry_interrupted([&] { return ::fsync(file_.get()); }) != 0) fail("written", errno);
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail("replaced", errno);
  temporary_path_.clear();
  file_ = FileDescriptor();
  // The new name must be on the disk too. Some file systems do not support this request (EINVAL).
  const FileDescriptor directory(retry_interrupted(
      [&] { return ::open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!directory.is_open()) return;  // a folder may be written without being readable
  if (retry_interrupted([&] { return ::fsync(directory.get()); }) != 0 && errno != EINVAL)
    fail("secured against a power cut", errno);
}

void AtomicFile::fail(std::string_view step, int error) const {
  raise<Error>({__FILE__, __LINE__, __func__},
               concat(what_, ": ", path_, " cannot be ", step, ": ", describe(error),
                      ". Check the folder's space and permissions."),
               {.operation = what_, .code = error});
}

void remove_abandoned_files(const std::filesystem::path& directory) noexcept try {
  std::error_code error;
  for (const std::string& name : names_in_folder(directory, error)) {
    if (!is_temporary_name(name)) continue;
    const std::filesystem::path path = directory / name;
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (file.is_open() && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::flock(file.get(), LOCK_EX | LOCK_NB) == 0)
      ::unlink(path.c_str());
  }
} catch (...) {  // out of memory: the files stay
}

}  // namespace lockstep::detail
