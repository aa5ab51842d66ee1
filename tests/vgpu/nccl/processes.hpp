// Communicators that span processes of one machine: a small shared file per communicator says who has joined,
// and every rank's part of an operation is published as a file of its own in shared memory (/dev/shm).
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace vgpu::nccl {

// Whoever has the file open holds a lock on it, and every rank's process one on the rank's byte. A process
// that ends, however it ends, loses its locks: so the others learn of it, and the last one removes the files.
class SharedClique {
 public:
  static constexpr int max_ranks = 1024;
  enum class State : std::int32_t { absent, joined, left, aborted, gave_up };

  SharedClique(std::string key, int ranks);
  // The ranks of this process that have not left give up.
  ~SharedClique();
  SharedClique(const SharedClique&) = delete;

  bool usable() const { return header_ != nullptr; }
  int ranks() const { return header_->ranks; }
  // Joins; false when another process has joined with this rank.
  bool claim(int rank, int device);
  void leave(int rank, State how);
  State state(int rank) const { return header_->slots[rank].state; }
  bool joined(int rank) const { return state(rank) != State::absent; }
  bool all_joined() const;
  // Whether the rank's process has ended without leaving.
  bool lost(int rank) const;
  int process(int rank) const { return header_->slots[rank].process; }
  int device(int rank) const { return header_->slots[rank].device; }

  // This rank's process has completed the first `count` collectives.
  void finished(int rank, std::uint64_t count) { header_->slots[rank].finished = count; }
  std::uint64_t finished_by_all() const;

  // Messages: written whole, then visible under their name.
  bool publish(const std::string& name, const std::string& head, const void* data, std::size_t bytes) const;
  bool exists(const std::string& name) const;
  bool fetch(const std::string& name, std::string& head, std::vector<char>& data) const;
  void remove(const std::string& name) const;
  const std::string& key() const { return key_; }

  // At the program's end.
  void close_file();

 private:
  struct Slot {
    std::atomic<State> state;
    std::atomic<std::int32_t> process, device;
    std::atomic<std::uint64_t>
        finished;  // collectives, from the first on, that this rank's process has completed
  };
  struct Header {
    std::atomic<std::int32_t> ranks;
    Slot slots[max_ranks];
  };
  std::string path(const std::string& rest = {}) const;

  std::string key_;
  Header* header_ = nullptr;
  int file_ = -1;
  int owner_ = 0;      // the process that opened it, not a fork's
  std::set<int> own_;  // ranks of this process that have not left
};

}  // namespace vgpu::nccl
