#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

/// Spans of the library's calls, for recordings (lockstep/trace.hpp) and profilers.
namespace lockstep::detail {

enum class SpanKind : std::uint8_t { run, collective, update, input, checkpoint, region };

std::string_view name_of(SpanKind kind) noexcept;

struct SpanRecord {
  std::string_view name;  // ends in a zero, and lives as long as the process, as all names here
  SpanKind kind = SpanKind::run;
  std::int32_t replica = -1;   // -1: the thread acts as none
  std::uint64_t begin_ns = 0;  // of CLOCK_MONOTONIC
  std::uint64_t end_ns = 0;
  std::uint64_t waiting_ns = 0;  // of it, for others
  std::uint64_t bytes = 0;
  std::uint64_t call = 0;  // equal in the spans of a collective's ranks; 0: no collective
  const char* path = nullptr;
};

/// Hears of spans on the threads that make them. Its functions must not throw.
struct SpanObserver {
  void (*begin)(SpanKind kind, std::string_view name, std::uint64_t bytes);
  void (*end)();
};

/// A call of the library on a thread, from the constructor to the destructor. Spans of a thread nest.
class [[nodiscard]] Span {
 public:
  /// @param replica  whose work this is, if the span around it does not say; -1: of none.
  Span(SpanKind kind, std::string_view name, int replica = -1, std::uint64_t bytes = 0) noexcept
      : listeners_(listeners().load(std::memory_order_relaxed)) {
    if (listeners_ != 0) begin(kind, name, replica, bytes);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    if (listeners_ != 0) end();
  }

  /// Whether somebody listens to this span.
  bool is_heard() const noexcept { return listeners_ != 0; }
  /// @pre is_heard()
  void set_call(std::uint64_t call) noexcept { record_.call = call; }
  void set_path(const char* path) noexcept { record_.path = path; }

  /// Whether anybody listens to spans that begin now.
  static bool is_anyone_listening() noexcept { return listeners().load(std::memory_order_relaxed) != 0; }
  static constexpr std::uint32_t kRecording = 1;
  static constexpr std::uint32_t kObserver = 2;
  static std::atomic<std::uint32_t>& listeners() noexcept { return listeners_of_process_; }
  /// Observes the spans that begin later. @param observer  lives as long as the process.
  static void observe(const SpanObserver& observer) noexcept;

 private:
  friend class SpanWait;
  void begin(SpanKind kind, std::string_view name, int replica, std::uint64_t bytes) noexcept;
  void end() noexcept;

  static constinit inline std::atomic<std::uint32_t> listeners_of_process_{0};

  const std::uint32_t listeners_;
  Span* outer_;  // this and the record are set where somebody listens
  union {
    SpanRecord record_;
  };
};

/// Time for which a thread waits for others: it counts for the innermost span.
class [[nodiscard]] SpanWait {
 public:
  SpanWait() noexcept {
    if (Span::is_anyone_listening()) begin();
  }
  SpanWait(const SpanWait&) = delete;
  SpanWait& operator=(const SpanWait&) = delete;
  ~SpanWait() {
    if (begin_ns_ != 0) end();
  }

 private:
  void begin() noexcept;
  void end() noexcept;

  std::uint64_t begin_ns_ = 0;
};

/// A copy of the name that lives as long as the process; equal names share it. Only for what somebody hears.
std::string_view lasting_name(std::string_view name);

}  // namespace lockstep::detail
