#include "trace/span.hpp"

#include <array>
#include <chrono>
#include <mutex>
#include <new>
#include <set>
#include <string>

#include <lockstep/detail/mutex.hpp>

#include "detail/lazy.hpp"
#include "trace/measured_call.hpp"
#include "trace/recording.hpp"

namespace lockstep::detail {

namespace {

struct Recorder {
  Mutex mutex{"the recorder of spans"};  // guards what follows
  Recording recording;
  std::size_t capacity = 0;
};

Recorder& the_recorder() {
  static constinit Lazy<Recorder> recorder("the recorder of spans, which was being made");
  return recorder.get([] { return new Recorder; });
}

// Counts recordings: a thread's ring is of one of them.
constinit std::atomic<std::uint64_t> num_recordings{0};
constinit std::atomic<const SpanObserver*> observer{nullptr};
constinit thread_local Span* innermost = nullptr;

// Here, as every program that has spans links this.
const bool is_from_environment = start_from_environment();

struct OwnRing {
  std::shared_ptr<SpanRing> ring;
  std::uint64_t recording = 0;
  ~OwnRing() { has_ended = true; }
  static constinit inline thread_local bool has_ended = false;
};

/// The thread's ring in the newest recording; null while the thread ends, or without memory.
SpanRing* own_ring() noexcept {
  if (OwnRing::has_ended) return nullptr;
  thread_local OwnRing own;
  const std::uint64_t newest = num_recordings.load(std::memory_order_acquire);
  if (own.recording == newest) return own.ring.get();
  try {
    Recorder& recorder = the_recorder();
    const std::lock_guard lock(recorder.mutex);
    auto& rings = recorder.recording.rings;
    own.ring = std::make_shared<SpanRing>(recorder.capacity, static_cast<int>(rings.size()));
    rings.push_back(own.ring);
    own.recording = num_recordings.load(std::memory_order_relaxed);
  } catch (...) {  // the span is not recorded
    return nullptr;
  }
  return own.ring.get();
}

}  // namespace

std::string_view name_of(SpanKind kind) noexcept {
  static constexpr std::array<std::string_view, 6> names{"run",   "collective", "update",
                                                         "input", "checkpoint", "region"};
  return names[static_cast<std::size_t>(kind)];
}

std::uint64_t monotonic_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void Span::begin(SpanKind kind, std::string_view name, int replica, std::uint64_t bytes) noexcept {
  static_cast<void>(listeners().load(std::memory_order_acquire));  // the observer is there
  outer_ = innermost;
  innermost = this;
  if (outer_ != nullptr && outer_->record_.replica >= 0) replica = outer_->record_.replica;
  if ((listeners_ & kObserver) != 0) observer.load(std::memory_order_acquire)->begin(kind, name, bytes);
  new (&record_)
      SpanRecord{.name = name, .kind = kind, .replica = replica, .begin_ns = monotonic_ns(), .bytes = bytes};
}

void Span::end() noexcept {
  record_.end_ns = monotonic_ns();
  innermost = outer_;
  if ((listeners_ & kObserver) != 0) observer.load(std::memory_order_acquire)->end();
  if ((listeners_ & kRecording) == 0) return;
  if (SpanRing* const ring = own_ring(); ring != nullptr) ring->add(record_);
}

void Span::observe(const SpanObserver& with) noexcept {
  observer.store(&with, std::memory_order_release);
  listeners().fetch_or(kObserver, std::memory_order_release);
}

void SpanWait::begin() noexcept {
  if (innermost != nullptr || MeasuredCall::is_active()) begin_ns_ = monotonic_ns();
}
void SpanWait::end() noexcept {
  const std::uint64_t time = monotonic_ns() - begin_ns_;
  if (innermost != nullptr) innermost->record_.waiting_ns += time;
  MeasuredCall::add_wait(time);
}

std::string_view lasting_name(std::string_view name) {
  struct Names {
    Mutex mutex{"the names of spans"};
    std::set<std::string, std::less<>> names;
  };
  static constinit Lazy<Names> all("the names of spans, which were being made");
  Names& names = all.get([] { return new Names; });
  const std::lock_guard lock(names.mutex);
  const auto found = names.names.find(name);
  return found != names.names.end() ? *found : *names.names.emplace(name).first;
}

void start_recording(std::size_t capacity) {
  Recorder& recorder = the_recorder();
  const std::lock_guard lock(recorder.mutex);
  recorder.recording = {};
  recorder.recording.begin_ns = monotonic_ns();
  recorder.capacity = capacity;
  num_recordings.fetch_add(1, std::memory_order_release);
  Span::listeners().fetch_or(Span::kRecording, std::memory_order_release);
}

void stop_recording() noexcept {
  if ((Span::listeners().fetch_and(~Span::kRecording) & Span::kRecording) == 0) return;
  Recorder& recorder = the_recorder();
  if (!recorder.mutex.lock_unless_lost()) return;
  const std::lock_guard lock(recorder.mutex, std::adopt_lock);
  recorder.recording.end_ns = monotonic_ns();
}

Recording recording() {
  Recorder& recorder = the_recorder();
  const std::lock_guard lock(recorder.mutex);
  Recording result = recorder.recording;
  if (result.begin_ns != 0 && result.end_ns == 0) result.end_ns = monotonic_ns();
  return result;
}

}  // namespace lockstep::detail
