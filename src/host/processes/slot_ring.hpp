#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "workers/shared_memory/shared_parking.hpp"
#include "workers/shared_memory/shared_segment.hpp"

namespace lockstep::host {

/// Where ranks of several processes give each other chunks of bytes: three slots of each rank, in its
/// process's part of a segment, that it fills in turn. Step t of all ranks goes through the slots t % 3.
///
/// A rank waits until all have published step t - 1 before it writes for step t, and is through with reading
/// what was published at t before it publishes t + 2. So nobody writes what another may still read, and a
/// rank can read a chunk while others are filling the next one.
class SlotRing {
 public:
  /// Bytes of each process's part of the segment. @param num_ranks  of each process.
  static std::vector<std::size_t> part_bytes(std::span<const int> num_ranks);
  SlotRing(std::shared_ptr<detail::SharedSegment> segment, std::span<const int> num_ranks);

  int num_ranks() const noexcept { return static_cast<int>(first_slots_.size()); }
  /// The most that a slot takes; a multiple of num_ranks() cache lines.
  std::int64_t chunk_bytes() const noexcept { return chunk_bytes_; }

  /// A chunk of that size in a rank's slot of a step. A short one is in the line of the stamp.
  std::byte* chunk(int rank, std::uint64_t step, std::int64_t size_bytes) const noexcept {
    return slot(rank, step) + (size_bytes <= kLineBytes - kStampBytes ? kStampBytes : kLineBytes);
  }
  /// A further part of the slot, for chunk_bytes() / num_ranks().
  std::byte* result(int rank, std::uint64_t step) const noexcept {
    return slot(rank, step) + kLineBytes + chunk_bytes_;
  }

  /// What was written to a rank's slot is there for all. Follow it by `wake`.
  void publish(int rank, std::uint64_t step) noexcept {
    stamp(rank, step).store(step, std::memory_order_release);
  }
  void wake() noexcept {
    detail::full_fence();
    parking_.wake();
  }
  /// Returns true when all ranks have published the step.
  /// @param num_threads  how many wait for each other. @return false: the ring was aborted.
  bool await(std::uint64_t step, std::uint64_t num_threads) noexcept {
    int next = 0;  // all ranks before it have published
    bool all_have_published = false;
    parking_.wait(num_threads, [&] {
      while (next < num_ranks() && stamp(next, step).load(std::memory_order_seq_cst) == step) ++next;
      all_have_published = next == num_ranks();
      return all_have_published || is_aborted_.load(std::memory_order_seq_cst);
    });
    return all_have_published;
  }

  /// Makes `num_steps` steps for the ranks of `calls`, which the thread drives: at each, calls
  /// `give(call, k, step)` for what goes into the slot of the step, and, when it is published,
  /// `take(call, k, step - 1)` for what all have published at the one before; take alone once more at the
  /// end.
  /// @param num_threads  how many wait for each other. @return false: the ring was aborted.
  template <class Calls, class Give, class Take>
  bool make_steps(const Calls& calls, std::uint64_t num_threads, std::int64_t num_steps, const Give& give,
                  const Take& take) {
    if (num_steps == 0) return true;
    std::uint64_t step = state(calls.front().rank).step;
    for (std::int64_t k = 0;; ++k, ++step) {
      if (!await(step, num_threads)) return false;
      if (k < num_steps) {
        for (const auto& call : calls) {
          give(call, k, step + 1);
          publish(call.rank, step + 1);
        }
        wake();
      }
      if (k > 0)
        for (const auto& call : calls) take(call, k, step);
      if (k == num_steps) break;
    }
    for (const auto& call : calls) state(call.rank).step = step;
    return true;
  }
  /// In `give`, for what uses memory of other ranks of the process: calls work(). All of them have returned
  /// before any rank's steps end, or it returns from await_users. @return false: the ring was aborted.
  template <class Work>
  bool use_memory(int rank, const Work& work) {
    std::atomic<bool>& is_using = state(rank).is_using_memory;
    is_using.store(true, std::memory_order_seq_cst);
    const bool is_usable = !is_aborted();  // else whoever aborts it and goes sees this rank's use
    if (is_usable) work();
    is_using.store(false, std::memory_order_release);
    return is_usable;
  }
  /// Once the ring is aborted: returns when no thread uses the memory of another's ranks.
  void await_users() const noexcept {
    for (const State& state : states_)
      while (state.is_using_memory.load(std::memory_order_seq_cst)) std::this_thread::yield();
  }

  /// Releases this process's threads. Any thread.
  void abort() noexcept {
    is_aborted_.store(true, std::memory_order_seq_cst);
    parking_.wake();
  }
  bool is_aborted() const noexcept { return is_aborted_.load(std::memory_order_seq_cst); }

 private:
  static constexpr std::int64_t kLineBytes = 64, kStampBytes = 8;
  static constexpr std::uint64_t kNumSlots = 3;

  // Of a rank of this process.
  struct alignas(64) State {
    std::uint64_t step = 0;  // the last one that it has made; of the thread that drives it
    std::atomic<bool> is_using_memory{false};
  };
  State& state(int rank) noexcept { return states_[static_cast<std::size_t>(rank)]; }

  std::byte* slot(int rank, std::uint64_t step) const noexcept {
    return first_slots_[static_cast<std::size_t>(rank)] + step % kNumSlots * slot_bytes_;
  }
  std::atomic_ref<std::uint64_t> stamp(int rank, std::uint64_t step) const noexcept {
    static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(slot(rank, step)));
  }

  std::shared_ptr<detail::SharedSegment> segment_;  // owners: the rings of processes that are threads
  detail::SharedParking& parking_;
  std::int64_t chunk_bytes_;
  std::size_t slot_bytes_;
  std::vector<std::byte*> first_slots_;  // by rank
  std::vector<State> states_;            // by rank; those of other processes are not used
  std::atomic<bool> is_aborted_{false};
};

}  // namespace lockstep::host
