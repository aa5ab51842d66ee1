#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "model.hpp"

namespace lockstep::model {

/// The suite's threads, which run what std's threads would. A suite that explores such has this as a member,
/// and calls `serve` on each thread that is to be started.
class Threads {
 public:
  Threads() { used_ = this; }
  ~Threads() { used_ = nullptr; }

  /// Runs the function with which thread `index`, counted from 0, is started.
  void serve(int index) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return index < num_started_; });
    }
    functions_[index]();
    {
      const std::lock_guard lock(mutex_);
      has_ended_[index] = true;
    }
    changed_.notify_all();
  }

 private:
  friend class thread;
  static constexpr int kMost = 4;

  int start(std::function<void()> function) {
    int index = 0;
    {
      const std::lock_guard lock(mutex_);
      index = num_started_++;
      functions_[index] = std::move(function);
    }
    changed_.notify_all();
    return index;
  }
  void join(int index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_ended_[index]; });
  }

  static inline Threads* used_ = nullptr;
  mutex mutex_;
  condition_variable changed_;
  std::function<void()> functions_[kMost];
  bool has_ended_[kMost] = {};
  int num_started_ = 0;
};

/// In place of std::thread.
class thread {
 public:
  explicit thread(std::function<void()> function) : index_(Threads::used_->start(std::move(function))) {}
  void join() { Threads::used_->join(index_); }

 private:
  int index_;
};

inline thread start_thread(std::string_view, std::function<void()> function) {
  return thread(std::move(function));
}

}  // namespace lockstep::model
