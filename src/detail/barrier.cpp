#include "detail/barrier.hpp"

#include <cassert>

namespace lockstep::detail {

Barrier::Barrier(int num_parties) : num_parties_(static_cast<std::uint64_t>(num_parties)) {
  assert(num_parties > 0 && num_parties_ <= kArrived);
}

bool Barrier::arrive_and_wait(int num_arriving) {
  const auto arriving = static_cast<std::uint64_t>(num_arriving);
  // After a failure parties may arrive any number of times; the count must not overflow.
  if (has_failed()) return false;
  const std::uint64_t before = word_.fetch_add(arriving, std::memory_order_seq_cst);
  if ((before & kFailed) != 0) return false;
  const std::uint64_t generation = before >> kGenerationShift;
  assert((before & kArrived) + arriving <= num_parties_);
  if ((before & kArrived) + arriving == num_parties_) {
    std::uint64_t complete = before + arriving;
    const std::uint64_t next = (generation + 1) << kGenerationShift;
    const bool passed = word_.compare_exchange_strong(complete, next, std::memory_order_seq_cst);
    parking_.wake();
    return passed;
  }
  std::uint64_t word = 0;
  // The number of threads is estimated as if each stood for as many parties as this one.
  parking_.wait(num_parties_ / arriving, [&] {
    word = word_.load(std::memory_order_seq_cst);
    return (word >> kGenerationShift) != generation || (word & kFailed) != 0;
  });
  return (word >> kGenerationShift) != generation;
}

void Barrier::fail() noexcept {
  word_.fetch_or(kFailed, std::memory_order_seq_cst);
  parking_.wake();
}

}  // namespace lockstep::detail
