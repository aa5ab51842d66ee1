#pragma once

#include <atomic>
#include <cstdint>

#include "trace/span.hpp"

namespace lockstep::detail {

/// What calls of one kind took together, in nanoseconds. Any threads may add to it.
struct CallTotals {
  std::atomic<std::uint64_t> num_calls{0};
  std::atomic<std::uint64_t> total_ns{0};
  std::atomic<std::uint64_t> inner_ns{0};    // of it, in measured calls within the calls
  std::atomic<std::uint64_t> waiting_ns{0};  // of it, in SpanWaits of the calls themselves
  /// Those of the outermost call on the thread, itself or one around it; null: none was made.
  std::atomic<const CallTotals*> outermost{nullptr};
};

/// A call that is too short and too frequent for a Span of its own: its time is added to others' of its kind,
/// by the clock of spans and while somebody listens to them. Measured calls of a thread nest.
class [[nodiscard]] MeasuredCall {
 public:
  explicit MeasuredCall(CallTotals& totals) noexcept {
    if (Span::is_anyone_listening()) begin(totals);
  }
  MeasuredCall(const MeasuredCall&) = delete;
  MeasuredCall& operator=(const MeasuredCall&) = delete;
  ~MeasuredCall() {
    if (totals_ != nullptr) end();
  }

  /// Whether this thread is in such a call.
  static bool is_active() noexcept;
  /// The innermost call waited.
  static void add_wait(std::uint64_t ns) noexcept;

 private:
  void begin(CallTotals& totals) noexcept;
  void end() noexcept;

  CallTotals* totals_ = nullptr;
  MeasuredCall* outer_ = nullptr;
  std::uint64_t begin_ns_ = 0;
};

}  // namespace lockstep::detail
