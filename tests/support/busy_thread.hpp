#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace lockstep::test {

/// A thread that is in the middle of f from the constructor's return until the destructor, which joins it.
class BusyThread {
 public:
  /// @param f  calls `wait`, or `ends` again and again, in its middle.
  explicit BusyThread(std::function<void(BusyThread&)> f) : thread_([this, f = std::move(f)] { f(*this); }) {
    while (!begun_) std::this_thread::yield();
  }
  BusyThread(const BusyThread&) = delete;
  BusyThread& operator=(const BusyThread&) = delete;
  ~BusyThread() {
    ends_ = true;
    thread_.join();
  }

  bool ends() {
    begun_ = true;
    return ends_;
  }
  void wait() {
    while (!ends()) std::this_thread::yield();
  }

 private:
  std::atomic<bool> begun_ = false, ends_ = false;
  std::thread thread_;
};

}  // namespace lockstep::test
