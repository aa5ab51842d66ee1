// Communicators that span processes of one machine: a small shared file per communicator says who has joined,
// and every rank's part of an operation is published as a file of its own in shared memory (/dev/shm).
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vgpu::nccl {

class SharedClique {
 public:
  static constexpr int max_ranks = 1024;
  struct Slot {
    std::atomic<std::int32_t> process;  // 0: has not joined
    std::atomic<std::int32_t> device;
    std::atomic<std::uint64_t> finished;  // collectives that this rank's process has completed
  };
  struct Header {
    std::atomic<std::int32_t> ranks, members;  // members: joined and not yet left
    Slot slots[max_ranks];
  };

  SharedClique(std::string key, int ranks) : key_(std::move(key)) {
    const int file = ::open(path("").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (::ftruncate(file, sizeof(Header)) == 0) {
      void* map = ::mmap(nullptr, sizeof(Header), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (map != MAP_FAILED) header_ = static_cast<Header*>(map);
    }
    ::close(file);
    if (header_) {
      std::int32_t none = 0;
      header_->ranks.compare_exchange_strong(none, ranks);
    }
  }
  ~SharedClique() {
    if (header_) ::munmap(header_, sizeof(Header));
  }
  SharedClique(const SharedClique&) = delete;

  bool usable() const { return header_ != nullptr; }
  int ranks() const { return header_->ranks; }
  bool claim(int rank, int device) {
    header_->slots[rank].device = device;
    std::int32_t none = 0;
    if (!header_->slots[rank].process.compare_exchange_strong(none, getpid())) return false;
    ++header_->members;
    return true;
  }
  bool joined(int rank) const { return header_->slots[rank].process != 0; }
  int process(int rank) const { return header_->slots[rank].process; }
  int device(int rank) const { return header_->slots[rank].device; }
  bool all_joined() const {
    for (int rank = 0; rank < header_->ranks; ++rank)
      if (!joined(rank)) return false;
    return true;
  }
  void unlink() const { ::unlink(path("").c_str()); }
  // The last member to leave removes what is left in shared memory.
  void leave() {
    if (--header_->members > 0) return;
    const std::string prefix = "vgpu-nccl-" + key_;
    if (DIR* directory = ::opendir("/dev/shm")) {
      while (dirent* entry = ::readdir(directory))
        if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) == 0 &&
            (entry->d_name[prefix.size()] == 0 || entry->d_name[prefix.size()] == '.'))
          ::unlink((std::string("/dev/shm/") + entry->d_name).c_str());
      ::closedir(directory);
    }
  }
  void finished(int rank, std::uint64_t sequence) { header_->slots[rank].finished = sequence + 1; }
  std::uint64_t finished_by_all() const {
    std::uint64_t least = ~0ull;
    for (int rank = 0; rank < header_->ranks; ++rank)
      least = std::min<std::uint64_t>(least, header_->slots[rank].finished);
    return least;
  }

  // Messages: written whole, then visible under their name.
  bool publish(const std::string& name, const std::string& head, const void* data, std::size_t bytes) const {
    const std::string final = path("." + name), temporary = final + ".tmp" + std::to_string(getpid());
    FILE* file = std::fopen(temporary.c_str(), "wbe");
    if (!file) return false;
    const std::uint64_t length = head.size();
    bool good = std::fwrite(&length, sizeof length, 1, file) == 1 &&
                std::fwrite(head.data(), 1, head.size(), file) == head.size();
    good = good && (bytes == 0 || std::fwrite(data, 1, bytes, file) == bytes);
    good = std::fclose(file) == 0 && good;
    return good && std::rename(temporary.c_str(), final.c_str()) == 0;
  }
  bool exists(const std::string& name) const { return ::access(path("." + name).c_str(), F_OK) == 0; }
  bool fetch(const std::string& name, std::string& head, std::vector<char>& data) const {
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
  void remove(const std::string& name) const { ::unlink(path("." + name).c_str()); }
  const std::string& key() const { return key_; }

 private:
  std::string path(const std::string& rest) const { return "/dev/shm/vgpu-nccl-" + key_ + rest; }
  std::string key_;
  Header* header_ = nullptr;
};

}  // namespace vgpu::nccl
