#include "trace/measured_call.hpp"

#include "trace/recording.hpp"

namespace lockstep::detail {

namespace {

constinit thread_local MeasuredCall* innermost = nullptr;

void add(std::atomic<std::uint64_t>& sum, std::uint64_t value) noexcept {
  sum.fetch_add(value, std::memory_order_relaxed);
}

}  // namespace

bool MeasuredCall::is_active() noexcept { return innermost != nullptr; }

void MeasuredCall::add_wait(std::uint64_t ns) noexcept {
  if (innermost != nullptr) add(innermost->totals_->waiting_ns, ns);
}

void MeasuredCall::begin(CallTotals& totals) noexcept {
  totals_ = &totals;
  outer_ = innermost;
  innermost = this;
  const CallTotals* const outermost =
      outer_ != nullptr ? outer_->totals_->outermost.load(std::memory_order_relaxed) : &totals;
  totals.outermost.store(outermost, std::memory_order_relaxed);
  begin_ns_ = monotonic_ns();
}

void MeasuredCall::end() noexcept {
  const std::uint64_t time = monotonic_ns() - begin_ns_;
  innermost = outer_;
  add(totals_->num_calls, 1);
  add(totals_->total_ns, time);
  if (outer_ != nullptr) add(outer_->totals_->inner_ns, time);
}

}  // namespace lockstep::detail
