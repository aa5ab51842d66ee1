#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "detail/concat.hpp"
#include "support/worker_processes.hpp"
#include "workers/control/control_connection.hpp"

namespace lockstep::test {

using Clock = std::chrono::steady_clock;

/// Keeps what a worker hears, as "failure of 1 in 7: text", "lost 1: cause" or "left 1".
class Heard final : public detail::ControlListener {
 public:
  void on_failure(int worker, std::uint64_t epoch, std::string text) override {
    add(detail::concat("failure of ", worker, " in ", epoch, ": ", text));
  }
  void on_lost(int worker, std::string cause) override { add(detail::concat("lost ", worker, ": ", cause)); }
  void on_left(int worker) override { add(detail::concat("left ", worker)); }

  /// The first `count`, once they are there; fewer after half a minute.
  std::vector<std::string> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return events_.size() >= count; });
    return {events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(std::min(count, events_.size()))};
  }
  std::vector<std::string> all() {
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  void add(std::string event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
};

/// One worker of a test: its connection, and what it hears.
struct ControlWorker {
  explicit ControlWorker(const detail::ControlOptions& options)
      : connection(std::make_unique<detail::ControlConnection>(options, heard)) {}

  Heard heard{};
  std::unique_ptr<detail::ControlConnection> connection;
};

/// What each worker's thread threw; null: nothing.
using Thrown = std::vector<std::exception_ptr>;

/// A thread for each worker, in this process, which calls f.
inline Thrown on_threads(int num_workers, const std::function<void(int)>& f) {
  Thrown thrown(static_cast<std::size_t>(num_workers));
  std::vector<std::thread> threads;
  for (int worker = 0; worker < num_workers; ++worker) {
    threads.emplace_back([&, worker] {
      try {
        f(worker);
      } catch (...) {
        thrown[static_cast<std::size_t>(worker)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

inline void rethrow_first(const Thrown& thrown) {
  for (const std::exception_ptr& one : thrown)
    if (one) std::rethrow_exception(one);
}

/// "" where nothing was thrown, or something else than an E.
template <class E>
std::string message_of(const std::exception_ptr& thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const E& error) {
    return error.what();
  } catch (...) {
  }
  return {};
}

/// A cluster of threads: f(worker, worker's) after the start; they leave together, once all have returned.
inline void on_workers(int num_workers, const std::function<void(int, ControlWorker&)>& f,
                       detail::ControlOptions options = {}) {
  options.addresses = free_addresses(num_workers);
  rethrow_first(on_threads(num_workers, [&](int worker) {
    auto own = options;
    own.worker = worker;
    ControlWorker it(own);
    f(worker, it);
  }));
}

inline backend::Deadline in(std::chrono::milliseconds time) { return Clock::now() + time; }

}  // namespace lockstep::test
