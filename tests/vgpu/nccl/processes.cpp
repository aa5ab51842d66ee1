#include "nccl/processes.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vgpu::nccl {
namespace {

const char* const folder = "/dev/shm/";
const char* const first_part = "vgpu-comm-";
// The byte that everybody who has the file open locks; the bytes before it are the ranks'.
constexpr off_t presence = SharedClique::max_ranks;

bool lock(int file, short type, off_t from, off_t bytes, bool wait = false) {
  struct flock request {};
  request.l_type = type;
  request.l_whence = SEEK_SET;
  request.l_start = from;
  request.l_len = bytes;
  return ::fcntl(file, wait ? F_SETLKW : F_SETLK, &request) == 0;
}

// Whether another process holds a lock on the byte.
bool locked(int file, off_t at) {
  struct flock request {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  request.l_start = at;
  request.l_len = 1;
  return ::fcntl(file, F_GETLK, &request) == 0 && request.l_type != F_UNLCK;
}

std::vector<std::string> shared_files() {
  std::vector<std::string> names;
  if (DIR* directory = ::opendir(folder)) {
    while (dirent* entry = ::readdir(directory))
      if (std::strncmp(entry->d_name, first_part, std::strlen(first_part)) == 0)
        names.push_back(entry->d_name);
    ::closedir(directory);
  }
  return names;
}

// The communicator's file goes last: as long as there are others, somebody finds them by it.
void remove_files(const std::string& name) {
  for (const std::string& each : shared_files())
    if (each.rfind(name + ".", 0) == 0) ::unlink((folder + each).c_str());
  ::unlink((folder + name).c_str());
}

// What processes that were killed have left behind: files that nobody has open.
void remove_abandoned_files() {
  for (const std::string& name : shared_files()) {
    if (name.find('.') != std::string::npos) continue;
    const int file = ::open((folder + name).c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) continue;
    if (lock(file, F_WRLCK, 0, 0)) remove_files(name);
    ::close(file);
  }
}

std::set<SharedClique*>& open_cliques() {
  static auto* const all = new std::set<SharedClique*>;  // outlives static objects
  return *all;
}

__attribute__((destructor)) void close_all() {
  for (SharedClique* clique : open_cliques()) clique->close_file();
}

}  // namespace

SharedClique::SharedClique(std::string key, int ranks) : key_(std::move(key)), owner_(::getpid()) {
  // Before this process has a file open: closing it twice would give up its locks.
  static const bool cleaned = (remove_abandoned_files(), true);
  (void)cleaned;
  while (file_ < 0) {
    file_ = ::open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file_ < 0) return;
    struct stat opened {
    }, named{};
    // Somebody may have removed the file between its opening and the lock.
    if (lock(file_, F_RDLCK, presence, 1, true) && ::fstat(file_, &opened) == 0 &&
        ::stat(path().c_str(), &named) == 0 && opened.st_ino == named.st_ino)
      break;
    ::close(file_);
    file_ = -1;
  }
  open_cliques().insert(this);
  if (::ftruncate(file_, sizeof(Header)) != 0) return;
  void* map = ::mmap(nullptr, sizeof(Header), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (map == MAP_FAILED) return;
  header_ = static_cast<Header*>(map);
  std::int32_t none = 0;
  header_->ranks.compare_exchange_strong(none, ranks);
}

SharedClique::~SharedClique() {
  while (!own_.empty()) leave(*own_.begin(), State::gave_up);
  close_file();
  open_cliques().erase(this);
  if (header_) ::munmap(header_, sizeof(Header));
}

void SharedClique::close_file() {
  if (file_ < 0) return;
  if (owner_ == ::getpid()) {
    lock(file_, F_UNLCK, presence, 1);
    if (!locked(file_, presence)) remove_files(first_part + key_);
  }
  ::close(file_);
  file_ = -1;
}

std::string SharedClique::path(const std::string& rest) const { return folder + (first_part + key_) + rest; }

bool SharedClique::claim(int rank, int device) {
  Slot& slot = header_->slots[rank];
  if (own_.count(rank) || joined(rank) || !lock(file_, F_WRLCK, rank, 1)) return false;
  own_.insert(rank);
  slot.process = owner_;
  slot.device = device;
  slot.state = State::joined;
  return true;
}

void SharedClique::leave(int rank, State how) {
  if (own_.erase(rank) == 0) return;
  header_->slots[rank].state = how;
  lock(file_, F_UNLCK, rank, 1);
  if (own_.empty()) close_file();
}

bool SharedClique::all_joined() const {
  for (int rank = 0; rank < header_->ranks; ++rank)
    if (!joined(rank)) return false;
  return true;
}

bool SharedClique::lost(int rank) const {
  if (file_ < 0 || own_.count(rank) || state(rank) != State::joined || locked(file_, rank)) return false;
  return state(rank) == State::joined;  // it may have left meanwhile
}

std::uint64_t SharedClique::finished_by_all() const {
  std::uint64_t least = ~0ull;
  for (int rank = 0; rank < header_->ranks; ++rank)
    least = std::min<std::uint64_t>(least, header_->slots[rank].finished);
  return least;
}

bool SharedClique::publish(const std::string& name, const std::string& head, const void* data,
                           std::size_t bytes) const {
  const std::string final = path("." + name), temporary = final + ".tmp" + std::to_string(owner_);
  FILE* file = std::fopen(temporary.c_str(), "wbe");
  if (!file) return false;
  const std::uint64_t length = head.size();
  bool good = std::fwrite(&length, sizeof length, 1, file) == 1 &&
              std::fwrite(head.data(), 1, head.size(), file) == head.size();
  good = good && (bytes == 0 || std::fwrite(data, 1, bytes, file) == bytes);
  good = std::fclose(file) == 0 && good;
  return good && std::rename(temporary.c_str(), final.c_str()) == 0;
}

bool SharedClique::exists(const std::string& name) const {
  return ::access(path("." + name).c_str(), F_OK) == 0;
}

bool SharedClique::fetch(const std::string& name, std::string& head, std::vector<char>& data) const {
  FILE* file = std::fopen(path("." + name).c_str(), "rbe");
  if (!file) return false;
  std::uint64_t length = 0;
  struct stat status;
  bool good = std::fread(&length, sizeof length, 1, file) == 1 && ::fstat(fileno(file), &status) == 0;
  if (good) {
    head.resize(length);
    good = std::fread(head.data(), 1, length, file) == length;
    data.resize(status.st_size - sizeof length - length);
    good = good && (data.empty() || std::fread(data.data(), 1, data.size(), file) == data.size());
  }
  std::fclose(file);
  return good;
}

void SharedClique::remove(const std::string& name) const { ::unlink(path("." + name).c_str()); }

}  // namespace vgpu::nccl
