#include "detail/barrier.hpp"

#include <cassert>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace lockstep::detail {
namespace {

void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A pause is 10 to 50 ns: some 20 us of spinning where each thread has a core, more than the threads of a
// small collective are apart. Without a core for each, whoever spins keeps the others from coming.
constexpr int kSpins = 1000;
constexpr int kSpinsCrowded = 20;
constexpr int kYields = 50;

}  // namespace

Barrier::Barrier(int num_parties)
    : num_parties_(static_cast<std::uint64_t>(num_parties)), num_cores_(std::thread::hardware_concurrency()) {
  assert(num_parties > 0 && num_parties_ <= kArrived);
}

Barrier::Ticket Barrier::arrive(int num_arriving) noexcept {
  const auto arriving = static_cast<std::uint64_t>(num_arriving);
  std::uint64_t before = word_.load(std::memory_order_acquire);
  // After a failure parties may come any number of times; the count must not run over.
  if ((before & kFailed) == 0) before = word_.fetch_add(arriving, std::memory_order_acq_rel);
  const bool failed = (before & kFailed) != 0;
  assert(failed || (before & kArrived) + arriving <= num_parties_);
  return {before >> kGenerationShift, num_arriving, !failed && (before & kArrived) + arriving == num_parties_,
          failed};
}

bool Barrier::release(const Ticket& ticket) noexcept {
  std::uint64_t complete = (ticket.generation << kGenerationShift) | num_parties_;
  const std::uint64_t next = (ticket.generation + 1) << kGenerationShift;
  // seq_cst, as in wait(): either the sleeper sees the new generation, or wake() sees the sleeper.
  if (!word_.compare_exchange_strong(complete, next, std::memory_order_seq_cst)) return false;
  wake();
  return true;
}

Barrier::Outcome Barrier::wait(const Ticket& ticket, const Deadline& deadline) {
  std::uint64_t word = 0;
  const auto is_over = [&] {
    word = word_.load(std::memory_order_seq_cst);
    return (word >> kGenerationShift) != ticket.generation || (word & kFailed) != 0;
  };
  const auto outcome = [&] {
    return (word >> kGenerationShift) != ticket.generation ? Outcome::passed : Outcome::failed;
  };
  // As if every thread stood for as many parties as this one.
  const std::uint64_t num_threads = num_parties_ / static_cast<std::uint64_t>(ticket.num_arriving);
  const int num_spins = num_threads <= num_cores_ ? kSpins : kSpinsCrowded;
  for (int i = 0; i < num_spins; ++i) {
    if (is_over()) return outcome();
    relax();
  }
  for (int i = 0; i < kYields; ++i) {
    if (is_over()) return outcome();
    std::this_thread::yield();
  }
  num_sleepers_.fetch_add(1, std::memory_order_seq_cst);
  std::unique_lock lock(mutex_);
  const bool over =
      !deadline || awake_.wait_until(lock, *deadline, is_over) || (word & kArrived) == num_parties_;
  if (over) awake_.wait(lock, is_over);
  num_sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return over ? outcome() : Outcome::timed_out;
}

bool Barrier::arrive_and_wait(int num_arriving) {
  const Ticket ticket = arrive(num_arriving);
  if (ticket.failed) return false;
  return ticket.is_last ? release(ticket) : wait(ticket) == Outcome::passed;
}

void Barrier::fail() noexcept {
  word_.fetch_or(kFailed, std::memory_order_seq_cst);
  wake();
}

bool Barrier::fail_if_incomplete(const Ticket& ticket) noexcept {
  std::uint64_t word = word_.load(std::memory_order_acquire);
  do {
    const bool is_current = (word >> kGenerationShift) == ticket.generation;
    if (!is_current || (word & kFailed) != 0 || (word & kArrived) == num_parties_) return false;
  } while (!word_.compare_exchange_weak(word, word | kFailed, std::memory_order_seq_cst));
  wake();
  return true;
}

void Barrier::reset(bool failed) noexcept { word_.store(failed ? kFailed : 0, std::memory_order_seq_cst); }

void Barrier::wake() noexcept {
  if (num_sleepers_.load(std::memory_order_seq_cst) == 0) return;
  // Whoever counted itself but does not sleep yet holds the lock until it does, or will see the new word.
  { std::lock_guard lock(mutex_); }
  awake_.notify_all();
}

}  // namespace lockstep::detail
