#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

namespace lockstep::test {

/// Sees each fsync of this program, in the caller's thread, while it lives. One at a time.
class FsyncHook {
 public:
  /// @return an error number, with which the call fails, or 0.
  using Hook = std::function<int()>;
  explicit FsyncHook(Hook hook);
  ~FsyncHook();
  FsyncHook(const FsyncHook&) = delete;
  FsyncHook& operator=(const FsyncHook&) = delete;
};

/// Keeps threads until it is opened.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++num_come_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
  }
  /// Returns once a thread has come.
  void wait_for_one() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_come_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int num_come_ = 0;
};

}  // namespace lockstep::test
