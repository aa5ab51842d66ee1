#include "collectives/watch/device_watch.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <new>
#include <thread>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/immortal.hpp"
#include "detail/start_thread.hpp"

namespace lockstep::detail {

/// The thread that asks the devices, and what it asks for.
struct DeviceWatch::Thread {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::vector<DeviceWatch*> watches;            // with pending calls
  DeviceWatch* in_use = nullptr;                // by the thread, or by end
  std::map<DeviceWatch*, std::thread> endings;  // calls of on_time_out_, which may take seconds
  bool is_ending = false;
  std::thread thread;
  const Process process;  // in which the thread is

  void add(DeviceWatch* watch);
  void remove(DeviceWatch* watch) noexcept;
  void end() noexcept;
  void run();

 private:
  /// @param lock  of the mutex; let go while it waits for devices. @param interval  the longest until the
  /// next time; shortened.
  void poll_all(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds& interval);
  void begin_ending(DeviceWatch* watch, const std::string& text);
};

DeviceWatch::Thread& DeviceWatch::thread() { return immortal<Thread>(); }

void DeviceWatch::Thread::add(DeviceWatch* watch) {
  const std::lock_guard lock(mutex);
  if (std::ranges::find(watches, watch) == watches.end()) watches.push_back(watch);
  if (!thread.joinable() && !is_ending) {
    thread = start_thread("The thread of time limits on devices", [this] { run(); });
    // Joined while the libraries of the devices, which were loaded before, are still there.
    std::atexit([] { DeviceWatch::thread().end(); });
  }
  changed.notify_all();
}

void DeviceWatch::Thread::remove(DeviceWatch* watch) noexcept {
  std::unique_lock lock(mutex);
  std::erase(watches, watch);
  changed.wait(lock, [&] { return in_use != watch; });
  auto ending = endings.extract(watch);
  lock.unlock();
  if (!ending.empty() && ending.mapped().joinable()) ending.mapped().join();
}

void DeviceWatch::Thread::end() noexcept {
  if (process.is_forked()) return;
  {
    const std::lock_guard lock(mutex);
    is_ending = true;
  }
  changed.notify_all();
  if (thread.joinable()) thread.join();
  std::unique_lock lock(mutex);
  while (!endings.empty()) {
    auto ending = endings.extract(endings.begin());
    in_use = ending.key();
    lock.unlock();
    if (ending.mapped().joinable()) ending.mapped().join();
    lock.lock();
    in_use = nullptr;
    changed.notify_all();
  }
}

/// On another thread, so that this one goes on with the other communicators' limits.
void DeviceWatch::Thread::begin_ending(DeviceWatch* watch, const std::string& text) {
  try {
    const std::lock_guard lock(mutex);
    std::thread& ending = endings[watch];
    ending = start_thread("The thread that ends late calls", [=] { watch->time_out(text); });
  } catch (const std::exception&) {  // no thread, or no memory
    watch->time_out(text);
  }
}

void DeviceWatch::Thread::run() {
  using std::chrono::milliseconds;
  std::unique_lock lock(mutex);
  while (!is_ending) {
    if (watches.empty()) {
      changed.wait(lock);
      continue;
    }
    // A call is found to be late by an eighth of its limit at most.
    milliseconds interval{100};
    try {
      poll_all(lock, interval);
    } catch (const std::bad_alloc&) {  // it asks again
      if (!lock.owns_lock()) lock.lock();
      in_use = nullptr;
      changed.notify_all();
    }
    changed.wait_for(lock, interval, [this] { return is_ending; });
  }
}

void DeviceWatch::Thread::poll_all(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds& interval) {
  for (DeviceWatch* const watch : std::vector(watches)) {
    if (std::ranges::find(watches, watch) == watches.end()) continue;  // it has gone meanwhile
    in_use = watch;
    lock.unlock();
    const std::string text = watch->poll();
    if (!text.empty()) begin_ending(watch, text);
    lock.lock();
    const bool is_idle = [&] {
      const std::lock_guard own(watch->mutex_);
      interval = std::clamp(watch->shortest_limit_ / 8, std::chrono::milliseconds(1), interval);
      return watch->num_pending_ == 0;
    }();
    if (is_idle) std::erase(watches, watch);
    in_use = nullptr;
    changed.notify_all();
  }
}

DeviceWatch::DeviceWatch(std::vector<backend::DeviceBackend*> devices, CallGroup& calls,
                         std::function<void(const std::string& text)> on_time_out)
    : calls_(calls), on_time_out_(std::move(on_time_out)) {
  for (backend::DeviceBackend* const device : devices) ranks_.emplace_back().device = device;
}

DeviceWatch::~DeviceWatch() {
  if (process_.is_forked()) return;
  thread().remove(this);
  for (Rank& rank : ranks_) {
    for (const Call& call : rank.pending) rank.events.insert(rank.events.end(), {call.before, call.behind});
    if (rank.has_next) rank.events.push_back(rank.next.before);
    for (const backend::EventHandle event : rank.events) rank.device->destroy_event(event);
  }
}

backend::EventHandle DeviceWatch::take_event(Rank& rank) {
  if (rank.events.empty()) return rank.device->create_event();
  const backend::EventHandle event = rank.events.back();
  rank.events.pop_back();
  return event;
}

void DeviceWatch::begin(int index, std::uint64_t number, std::string_view operation,
                        backend::StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  Rank& rank = ranks_[static_cast<std::size_t>(index)];
  if (is_over_) return;
  if (rank.device->is_capturing(stream)) {
    if (std::exchange(rank.has_next, false))
      rank.events.push_back(rank.next.before);  // of a call that failed
    return;
  }
  if (!rank.has_next) rank.next.before = take_event(rank);  // else the last call has failed
  rank.has_next = true;
  rank.next.number = number;
  rank.next.operation = operation;
  rank.device->record(rank.next.before, stream);
}

void DeviceWatch::end(int index, backend::StreamHandle stream, std::chrono::milliseconds limit) {
  {
    const std::lock_guard lock(mutex_);
    Rank& rank = ranks_[static_cast<std::size_t>(index)];
    if (is_over_ || !rank.has_next) return;
    Call call = rank.next;
    call.limit = limit;
    call.behind = take_event(rank);
    rank.pending.push_back(call);
    rank.has_next = false;
    ++num_pending_;
    shortest_limit_ = std::min(shortest_limit_, limit);
    rank.device->record(call.behind, stream);
  }
  thread().add(this);
}

void DeviceWatch::begin_capture() {
  const std::lock_guard lock(mutex_);
  for (Rank& rank : ranks_) rank.captured = {};
  has_unlimited_ = false;
  is_captured_ = true;
}

bool DeviceWatch::add_captured(int rank, std::chrono::milliseconds limit) {
  if (!is_captured_) return false;
  const std::lock_guard lock(mutex_);
  std::chrono::milliseconds& sum = ranks_[static_cast<std::size_t>(rank)].captured;
  sum = std::min(sum, std::chrono::milliseconds::max() - limit) + limit;
  has_unlimited_ = has_unlimited_ || limit.count() == 0;
  return true;
}

std::chrono::milliseconds DeviceWatch::end_capture() {
  const std::lock_guard lock(mutex_);
  is_captured_ = false;
  return has_unlimited_ ? std::chrono::milliseconds(0)
                        : std::ranges::max(ranks_, {}, &Rank::captured).captured;
}

std::string DeviceWatch::poll() {
  const std::lock_guard lock(mutex_);
  if (is_over_) return {};
  const Clock::time_point now = Clock::now();
  try {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) poll(rank, now);
  } catch (const Error&) {  // a device is lost, and whoever waits for it hears of that
    is_over_ = true;
    num_pending_ = 0;
    return {};
  }
  for (const Rank& rank : ranks_) {
    if (rank.pending.empty()) continue;
    const Call& call = rank.pending.front();
    if (call.begun == Clock::time_point() || now - call.begun < call.limit) continue;
    std::string text = text_of(call);
    is_over_ = true;
    num_pending_ = 0;
    return text;
  }
  return {};
}

void DeviceWatch::time_out(const std::string& text) noexcept {
  constexpr std::chrono::milliseconds kMemoryPause{10};
  for (;; std::this_thread::sleep_for(kMemoryPause)) try {
      return on_time_out_(text);
    } catch (const std::bad_alloc&) {  // the others wait until there is some
    }
}

void DeviceWatch::poll(int index, Clock::time_point now) {
  Rank& rank = ranks_[static_cast<std::size_t>(index)];
  if (rank.device->is_closed()) num_pending_ -= std::exchange(rank.pending, {}).size();
  while (!rank.pending.empty()) {
    Call& call = rank.pending.front();
    if (call.begun == Clock::time_point()) {
      if (!rank.device->has_passed(call.before)) return;
      call.begun = now;
      calls_[index].set_begun_on_device(call.number + 1);
    }
    if (!rank.device->has_passed(call.behind)) return;
    calls_[index].set_done_on_device(call.number + 1);
    rank.events.insert(rank.events.end(), {call.before, call.behind});
    rank.pending.pop_front();
    --num_pending_;
  }
}

std::string DeviceWatch::text_of(const Call& late) const {
  std::string present, absent;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const bool is_there = calls_[static_cast<int>(r)].num_begun_on_device() > late.number;
    std::string& list = is_there ? present : absent;
    list += concat(list.empty() ? "" : ", ", calls_.labels()[r]);
  }
  CallRecord record;
  const std::uint64_t call = calls_[0].find(late.number, record) ? record.call : late.number;
  const std::string what = concat(late.operation, ", call ", call, ": on the devices, ");
  if (absent.empty())
    return concat(what, "it has not ended ", late.limit.count(), " ms after all ", calls_.member(),
                  "s here came to it: ", present,
                  ". Look at the links between the devices, and at other processes, or allow more time.");
  return concat(
      what, "not all ", calls_.member(), "s came to it within ", late.limit.count(),
      " ms. Present: ", present, "; missing: ", absent,
      ", whose streams are still in what was enqueued before. End what keeps these devices, or allow "
      "more time.");
}

}  // namespace lockstep::detail
