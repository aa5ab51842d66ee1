#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "detail/start_thread.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/pipeline/stopping.hpp"
#include "trace/span.hpp"

namespace lockstep::detail {

/// The outcome of one element.
template <class T>
struct Outcome {
  T element{};
  std::exception_ptr error;  ///< Null: `element` is valid.
};

/// The element of the outcome. @throws the outcome's error.
template <class T>
T take_outcome(Outcome<T>&& outcome) {
  if (outcome.error) std::rethrow_exception(std::move(outcome.error));
  return std::move(outcome.element);
}

/// An iterator that a thread reads ahead. The thread opens it, and closes it before the thread ends.
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
    if (thread_.joinable()) return;
    stop_.follow_owner();
    thread_ = start_thread("Dataset: the thread that reads ahead", [this] { read(); });
  }
  /// Whether `next` would not wait. @pre started.
  bool is_ready() {
    const std::scoped_lock lock(mutex_);
    return has_outcome();
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
    ready_.pop_front();
    lock.unlock();
    has_room_.notify_one();
    return take_outcome(std::move(outcome));
  }

 private:
  /// The caller holds mutex_.
  bool has_outcome() const { return ended_ || !ready_.empty(); }

  /// Reads the next element or exception; nothing at the end.
  std::optional<Outcome<T>> read_one(std::unique_ptr<Iterator<T>>& input) {
    try {
      if (!input) input = open_();
      std::optional<T> element = input->next();
      return element ? std::optional<Outcome<T>>({std::move(*element), nullptr}) : std::nullopt;
    } catch (const Stopped&) {
      return std::nullopt;
    } catch (...) {
      return Outcome<T>{{}, std::current_exception()};
    }
  }

  void read() {
    const StopScope scope(stop_);
    std::unique_ptr<Iterator<T>> input;
    std::unique_lock lock(mutex_);
    while (has_room_.wait(lock, stop_.token(), [this] { return ready_.size() < buffer_size_; })) {
      lock.unlock();
      std::optional<Outcome<T>> outcome = read_one(input);
      lock.lock();
      ended_ = !outcome || !input;  // null input: it could not be opened
      if (outcome) ready_.push_back(std::move(*outcome));
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
  std::mutex mutex_;  // guards ready_ and ended_
  std::condition_variable_any has_element_, has_room_;
  std::deque<Outcome<T>> ready_;
  bool ended_ = false;
  std::atomic<std::int64_t> num_waits_ = 0;
  ThreadStop stop_;
  std::thread thread_;
};

}  // namespace lockstep::detail
