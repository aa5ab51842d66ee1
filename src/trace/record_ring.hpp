#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace lockstep::detail {

/// The newest records of a thread, each of `kWords` words. One thread at a time adds them; any thread may
/// read them meanwhile, also in a signal handler. Memory is taken as records come, as many rings get few.
///
/// A reader that finds a word of record n also finds that n records were added before: words are released
/// after that number. So `num_overwritten` tells it which of its copies are of one record.
template <std::size_t kWords>
class RecordRing {
 public:
  struct alignas(64) Slot {
    std::array<std::atomic<std::uint64_t>, kWords> words;

    void set(std::size_t word, std::uint64_t value) noexcept {
      words[word].store(value, std::memory_order_release);
    }
    std::uint64_t get(std::size_t word) const noexcept { return words[word].load(std::memory_order_acquire); }
  };

  /// @param capacity  a power of two; 0: keeps nothing.
  explicit RecordRing(std::size_t capacity)
      : capacity_(capacity),
        chunk_(std::min(capacity, kChunk)),
        chunks_(capacity == 0 ? 0 : capacity / chunk_) {}

  /// The place of the record that `publish` adds; null: it is not kept, as there is no memory.
  Slot* next() noexcept {
    if (capacity_ == 0) return nullptr;
    const std::uint64_t place = num_added_.load(std::memory_order_relaxed) & (capacity_ - 1);
    std::unique_ptr<Slot[]>& chunk = chunks_[place / chunk_];
    if (chunk == nullptr) chunk.reset(new (std::nothrow) Slot[chunk_]);
    return chunk == nullptr ? nullptr : &chunk[place % chunk_];
  }
  void publish() noexcept {
    num_added_.store(num_added_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  std::uint64_t num_added() const noexcept { return num_added_.load(std::memory_order_acquire); }
  /// Record `index`, counted from 0. @pre num_added() - capacity() <= index < num_added().
  const Slot& operator[](std::uint64_t index) const noexcept {
    const std::uint64_t place = index & (capacity_ - 1);
    return chunks_[place / chunk_][place % chunk_];
  }
  std::size_t capacity() const noexcept { return capacity_; }
  /// Records before this one may have been overwritten, also by one that is being added.
  std::uint64_t num_overwritten() const noexcept {
    const std::uint64_t newest = num_added() + 1;
    return newest > capacity_ ? newest - capacity_ : 0;
  }

 private:
  static constexpr std::size_t kChunk = 256;

  const std::size_t capacity_;
  const std::size_t chunk_;
  std::vector<std::unique_ptr<Slot[]>> chunks_;  // a chunk is made before its first record counts as added
  std::atomic<std::uint64_t> num_added_{0};
};

}  // namespace lockstep::detail
