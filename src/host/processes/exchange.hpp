#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/process_group.hpp>

namespace lockstep::host {

/// Memory in pieces, as one stream of bytes.
class ByteStream {
 public:
  void clear() noexcept { blocks_.clear(); }
  void add(void* data, std::int64_t size_bytes);

  /// The bytes from `begin` on, `most` at most: where they lie, or together in scratch memory.
  std::span<std::byte> packed(std::int64_t begin, std::int64_t most);
  /// Memory for the same bytes, and what brings them from there to where they belong.
  std::span<std::byte> room(std::int64_t begin, std::int64_t most);
  void unpack(std::int64_t begin, std::span<const std::byte> room) const;

 private:
  struct Block {
    std::byte* data;
    std::int64_t begin, end;  // in the stream
  };

  /// Calls f(data, offset, size_bytes) for the pieces of `size` bytes from `begin` on.
  template <class F>
  void for_each_piece(std::int64_t begin, std::size_t size, const F& f) const;

  std::vector<Block> blocks_;
  std::unique_ptr<std::byte[]> scratch_;
  std::int64_t scratch_bytes_ = 0;
};

/// What processes send each other: each first lists what it sends and receives, and then all move it in
/// rounds of bounded size, so that little memory is needed besides.
class Exchange {
 public:
  Exchange(backend::Channel& channel, int process, int num_processes);

  /// Bytes that go to, or come from, a process; those of several calls follow each other.
  void send(int process, const void* data, std::int64_t size_bytes);
  void receive(int process, void* data, std::int64_t size_bytes);

  /// For each round of later calls; 0: none.
  void set_time_limit(std::chrono::milliseconds limit) noexcept { time_limit_ = limit; }
  /// Makes it, and forgets it. @param largest  the most that goes from one process to another: the same on
  /// all processes.
  void run(std::int64_t largest);
  /// The same where all of it goes from `root`, which sends to itself, to all others. @param size_bytes  the
  /// same on all processes.
  void run_broadcast(int root, std::int64_t size_bytes);

 private:
  void clear() noexcept;
  backend::Deadline deadline() const;

  backend::Channel& channel_;
  const std::size_t process_;
  std::chrono::milliseconds time_limit_{0};
  std::vector<ByteStream> sent_, received_;  // by process
  std::vector<std::span<const std::byte>> sends_;
  std::vector<std::span<std::byte>> receives_;
};

}  // namespace lockstep::host
