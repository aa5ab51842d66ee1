#include "workers/shared_memory/shared_segment.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/file_descriptor.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kCreator = 0;       // the process that makes the file
constexpr std::size_t kCommonBegin = 64;  // behind the cookie
constexpr const char* kMemoryName = "lockstep";

std::string error_text(int error) {
  std::array<char, 128> buffer{};
  return ::strerror_r(error, buffer.data(), buffer.size());
}

// What a process tells the others about a step: that it is done, and what they need to know for the next, or
// why it is not.
struct Report {
  enum Kind : char { done = 'd', unreachable = 'u', out_of_memory = 'm' };
  Kind kind = done;
  std::string text{};

  std::string packed() const { return static_cast<char>(kind) + text; }
};

Report unpack(const std::string& packed) {
  return {static_cast<Report::Kind>(packed.at(0)), packed.substr(1)};
}
Report failed(Report::Kind kind, std::string_view what) {
  return {kind, concat(what, ": ", error_text(errno))};
}

// The file that the memory is, as a process has it open.
struct File {
  FileDescriptor descriptor{};
  std::string name{};  // for this process to remove

  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (!name.empty()) ::shm_unlink(name.c_str());
  }
  int get() const { return descriptor.get(); }
  bool is_open() const { return descriptor.is_open(); }
};

// Tells this memory from any other's.
std::string random_cookie() {
  std::array<std::uint64_t, 2> bits{};
  if (::getrandom(bits.data(), sizeof bits, 0) < 0) bits[0] = static_cast<std::uint64_t>(::getpid());
  return concat(std::hex, std::setfill('0'), std::setw(16), bits[0], std::setw(16), bits[1]);
}
constexpr std::size_t kCookieBytes = 32;
static_assert(kCookieBytes <= kCommonBegin);

// Calls `next(done)` until all bytes are done. A signal may interrupt it, or cut it short.
template <class F>
bool do_all(std::size_t size_bytes, F next) {
  for (std::size_t done = 0; done < size_bytes;) {
    const ::ssize_t size = retry_interrupted([&] { return next(done); });
    if (size < 0) return false;
    if (size == 0) return errno = EIO, false;
    done += static_cast<std::size_t>(size);
  }
  return true;
}

// Whether it is the memory that the cookie is of.
Report examine(const File& file, const std::string& place, const std::string& cookie,
               std::size_t size_bytes) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed(Report::unreachable, place);
  std::array<char, kCookieBytes> found{};
  const bool has_size = static_cast<std::size_t>(status.st_size) == size_bytes;
  if (has_size && !do_all(found.size(), [&](std::size_t done) {
        return ::pread(file.get(), found.data() + done, found.size() - done, static_cast<off_t>(done));
      }))
    return failed(Report::unreachable, place);
  if (!has_size || std::string_view(found.data(), found.size()) != cookie)
    return {Report::unreachable, concat(place, " is another's memory")};
  return {};
}

bool open_nameless(File& file) {
  file.descriptor = FileDescriptor(::memfd_create(kMemoryName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return file.is_open();
}
FileDescriptor open_by_name(const std::string& name, int flags) {
  return FileDescriptor(retry_interrupted(
      [&] { return ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC | flags, S_IRUSR | S_IWUSR); }));
}
bool open_named(File& file) {
  const std::string name = concat("/", kMemoryName, "-", ::getpid(), "-", random_cookie());
  file.descriptor = open_by_name(name, O_CREAT | O_EXCL);
  if (file.is_open()) file.name = name;
  return file.is_open();
}

// The creator's part. The report says where the file is, and what it begins with.
Report create(bool named, std::size_t size_bytes, File& file) {
  if (!(named ? open_named(file) : open_nameless(file)))
    return failed(Report::unreachable, named ? "shm_open" : "memfd_create");
  const std::string cookie = random_cookie();
  if (retry_interrupted([&] { return ::ftruncate(file.get(), static_cast<off_t>(size_bytes)); }) != 0)
    return failed(Report::out_of_memory, "ftruncate");
  if (!do_all(cookie.size(), [&](std::size_t done) {
        return ::pwrite(file.get(), cookie.data() + done, cookie.size() - done, static_cast<off_t>(done));
      }))
    return failed(Report::out_of_memory, "pwrite");
  // Nobody can make it end before others' memory does.
  if (!named) ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return {Report::done, cookie + (named ? file.name : concat("/proc/", ::getpid(), "/fd/", file.get()))};
}

// The others' part.
Report find(bool named, std::size_t size_bytes, const std::string& created, File& file) {
  const std::string cookie = created.substr(0, kCookieBytes), place = created.substr(kCookieBytes);
  if (!named) {
    // Where process numbers mean others here, it is some file, which may not even be opened.
    std::array<char, 64> target{};
    if (::readlink(place.c_str(), target.data(), target.size() - 1) < 0)
      return failed(Report::unreachable, place);
    if (!std::string_view(target.data()).starts_with(concat("/memfd:", kMemoryName)))
      return {Report::unreachable, concat(place, " is ", target.data())};
  }
  file.descriptor =
      named ? open_by_name(place, 0)
            : FileDescriptor(retry_interrupted([&] { return ::open(place.c_str(), O_RDWR | O_CLOEXEC); }));
  if (!file.is_open()) return failed(Report::unreachable, place);
  return examine(file, place, cookie, size_bytes);
}

// Takes the pages: touching one that is not to be had would end the process.
Report allocate(const File& file, std::size_t begin, std::size_t end) {
  if (begin == end) return {};
  do errno = ::posix_fallocate(file.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  while (errno == EINTR);
  return errno == 0 ? Report{} : failed(Report::out_of_memory, "posix_fallocate");
}

std::vector<std::size_t> begins_of(std::span<const std::size_t> part_bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<std::size_t> begins = {page};
  for (const std::size_t bytes : part_bytes)
    begins.push_back(begins.back() + (bytes + page - 1) / page * page);
  return begins;
}

}  // namespace

void SharedSegment::Unmap::operator()(std::byte* data) const noexcept { ::munmap(data, size_bytes); }

SharedSegment::SharedSegment(backend::ProcessGroup& group, std::string_view what,
                             std::span<const std::size_t> part_bytes)
    : begins_(begins_of(part_bytes)) {
  const std::size_t size_bytes = begins_.back();
  const auto own = static_cast<std::size_t>(group.process());
  std::string tried;
  for (const bool named : {false, true}) {
    std::vector<Report> reports;
    const auto exchange = [&](std::string_view step, const Report& report) {
      reports.clear();
      for (const std::string& packed : group.all_gather(concat(what, ": ", step), report.packed()))
        reports.push_back(unpack(packed));
      return std::ranges::all_of(reports, [](const Report& each) { return each.kind == Report::done; });
    };
    File file;
    Report report;
    if (own == kCreator) report = create(named, size_bytes, file);
    if (exchange("where its shared memory is", report)) {
      if (own != kCreator) report = find(named, size_bytes, reports[kCreator].text, file);
      if (report.kind == Report::done)
        report = allocate(file, own == kCreator ? 0 : begins_[own], begins_[own + 1]);
      if (report.kind == Report::done) {
        void* const data = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
        if (data == MAP_FAILED)
          report = failed(Report::out_of_memory, "mmap");
        else
          data_ = {static_cast<std::byte*>(data), Unmap{size_bytes}};
      }
      if (exchange("whether its shared memory can be used", report)) return;
    }
    data_.reset();
    for (std::size_t p = 0; p < reports.size(); ++p) {
      const std::string& label = group.label(static_cast<int>(p));
      LOCKSTEP_EXPECTS(reports[p].kind != Report::out_of_memory, OutOfMemory, what, ": ", label,
                       " cannot have its part of ", size_bytes,
                       " bytes of memory that processes share: ", reports[p].text,
                       ". Free memory, raise the limit, or give /dev/shm more.");
      if (reports[p].kind == Report::unreachable)
        tried += concat(tried.empty() ? "" : "; ", label, ", ", reports[p].text);
    }
  }
  LOCKSTEP_EXPECTS(false, Unsupported, what, ": the processes of this host cannot share memory: ", tried,
                   ". Run them as one user, in one container or in ones that share /dev/shm.");
}

std::span<std::byte> SharedSegment::common() const noexcept {
  return {data_.get() + kCommonBegin, begins_.front() - kCommonBegin};
}

}  // namespace lockstep::detail
