#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "detail/start_thread.hpp"
#include "input/pipeline/element_error.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/pipeline/stopping.hpp"
#include "trace/span.hpp"

namespace lockstep::detail {

/// The outcome of one element.
template <class T>
struct Outcome {
  T element{};
  std::exception_ptr error;  ///< Null: `element` is valid.

  void transfer(PassState& state) {
    if (state.flag(error != nullptr))
      state(error);
    else
      state(element);
  }
};

template <class T>
void transfer(PassState& state, std::list<Outcome<T>>& outcomes) {
  const std::size_t size = state.length(outcomes.size());
  if (state.is_saving()) {
    for (Outcome<T>& outcome : outcomes) state(outcome);
  } else {
    outcomes.clear();
    while (outcomes.size() < size) state(outcomes.emplace_back());
  }
}

/// The element of the outcome. @throws the outcome's error.
template <class T>
T take_outcome(Outcome<T>&& outcome) {
  if (outcome.error) std::rethrow_exception(std::move(outcome.error));
  return std::move(outcome.element);
}

/// Keeps threads from reading while it lives. The caller holds the mutex.
class Pause {
 public:
  Pause(bool& is_paused, std::condition_variable_any& has_room) : is_paused_(is_paused), has_room_(has_room) {
    is_paused_ = true;
  }
  ~Pause() {
    is_paused_ = false;
    has_room_.notify_all();
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  bool& is_paused_;
  std::condition_variable_any& has_room_;
};

/// Whether a PassState has values of this type. Steps it has not: their iterator knows which the user has
/// seen.
template <class T>
inline constexpr bool kIsTransferred = true;

/// An iterator that a thread reads ahead. The thread opens it.
template <class T>
class PrefetchIterator final : public Iterator<T> {
 public:
  /// @param on_ready  called on the thread after each element and at the end; may be empty.
  PrefetchIterator(std::function<std::unique_ptr<Iterator<T>>()> open, std::int64_t buffer_size,
                   std::function<void()> on_ready = {})
      : open_(std::move(open)),
        buffer_size_(static_cast<std::size_t>(buffer_size)),
        on_ready_(std::move(on_ready)) {}
  ~PrefetchIterator() override {
    stop_.request();
    if (thread_.joinable()) thread_.join();
  }

  /// Starts the thread, unless `next` has. @throws Error  the thread cannot be started.
  void start() {
    if (thread_.joinable() || ended_) return;
    stop_.follow_owner();
    {
      const std::scoped_lock lock(mutex_);
      if (places_.empty()) places_.emplace_back();
    }
    thread_ = start_thread("Dataset: the thread that reads ahead", [this] { read(); });
  }
  /// Whether `next` would not wait. @pre started.
  bool is_ready() {
    const std::scoped_lock lock(mutex_);
    return has_outcome();
  }
  Ahead ahead() override {
    const std::scoped_lock lock(mutex_);
    return {.num_ready = static_cast<std::int64_t>(ready_.size()),
            .buffer_size = static_cast<std::int64_t>(buffer_size_)};
  }
  /// The number of calls of `next` that waited. Any thread may call.
  std::int64_t num_waits() const noexcept { return num_waits_; }

  /// @throws as start. Exceptions of the input are thrown at the place of their element.
  std::optional<T> next() override {
    start();
    std::unique_lock lock(mutex_);
    if (!has_outcome()) ++num_waits_;
    const SpanWait waits;
    if (!has_element_.wait(lock, current_stop_token(), [this] { return has_outcome(); })) throw Stopped();
    if (ready_.empty()) return stop_.end<T>();
    Outcome<T> outcome = std::move(ready_.front());
    places_.splice(places_.end(), ready_, ready_.begin());
    lock.unlock();
    has_room_.notify_one();
    return take_outcome(std::move(outcome));
  }
  /// The elements that are ready are a part of the state. Waits for the one that is being read.
  void transfer(PassState& state) override {
    std::unique_lock lock(mutex_);
    const Pause pause(is_paused_, has_room_);
    has_element_.wait(lock, [this] { return !is_reading_; });
    if constexpr (kIsTransferred<T>) {
      state(ready_, ended_);
      transfer_opened(state, input_, open_);
    } else {
      if (!input_) input_ = open_();
      state(*input_);
    }
  }

 private:
  /// The caller holds mutex_.
  bool has_outcome() const { return ended_ || !ready_.empty(); }

  /// Whether an element more has its place. Without memory for one the thread waits for those that are there.
  /// The caller holds mutex_.
  bool has_place() {
    try {
      if (places_.empty()) places_.emplace_back();
    } catch (const std::bad_alloc&) {
    }
    return !places_.empty();
  }

  /// Reads the next element or exception; nothing at the end.
  std::optional<Outcome<T>> read_one() {
    try {
      if (!input_) input_ = open_();
      std::optional<T> element = input_->next();
      return element ? std::optional<Outcome<T>>({std::move(*element), nullptr}) : std::nullopt;
    } catch (const Stopped&) {
      return std::nullopt;
    } catch (...) {
      return Outcome<T>{{}, std::current_exception()};
    }
  }

  void read() {
    const StopScope scope(stop_);
    std::unique_lock lock(mutex_);
    const auto may_read = [this] { return !is_paused_ && ready_.size() < buffer_size_ && has_place(); };
    while (has_room_.wait(lock, stop_.token(), may_read)) {
      is_reading_ = true;
      lock.unlock();
      std::optional<Outcome<T>> outcome = read_one();
      lock.lock();
      is_reading_ = false;
      ended_ = !outcome || !input_;  // null input: it could not be opened
      if (outcome) {
        places_.front() = std::move(*outcome);
        ready_.splice(ready_.end(), places_, places_.begin());
      }
      const bool ends = ended_;
      has_element_.notify_one();
      if (on_ready_) {
        lock.unlock();
        on_ready_();
        lock.lock();
      }
      if (ends) return;
    }
  }

  std::function<std::unique_ptr<Iterator<T>>()> open_;
  std::size_t buffer_size_;
  std::function<void()> on_ready_;
  std::unique_ptr<Iterator<T>> input_;  // used by the thread or, while it is paused or has ended, by another
  std::mutex mutex_;                    // guards all members below except num_waits_, stop_ and thread_
  std::condition_variable_any has_element_, has_room_;
  std::list<Outcome<T>> ready_;
  std::list<Outcome<T>> places_;  // for more; one at least is here, or in ready_, or in use
  bool ended_ = false;
  bool is_reading_ = false;
  bool is_paused_ = false;
  std::atomic<std::int64_t> num_waits_ = 0;
  ThreadStop stop_;
  std::thread thread_;
};

}  // namespace lockstep::detail
