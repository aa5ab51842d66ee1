#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::detail {

/// The persistent threads of a strategy's replicas. Replica 0 runs on the calling thread, replica i > 0 on
/// thread i, which is started by the first `run` and joined by the destructor. Idle threads spin briefly,
/// then park.
class ReplicaThreads {
 public:
  explicit ReplicaThreads(int num_replicas);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  int num_replicas() const noexcept { return num_replicas_; }
  /// Whether a `run` of several replicas is under way.
  bool is_running() const noexcept { return job_.load(std::memory_order_acquire) != nullptr; }

  /// Calls job(i) for every replica, all at the same time, and returns when all have returned. One call at a
  /// time; but job(0) may call it again once all other replicas have begun theirs and are in, or on their way
  /// to, `serve`. @pre job does not throw.
  /// @throws Error  a thread cannot be started; nothing has run then.
  void run(const std::function<void(int)>& job);
  /// On replica i > 0, inside a job: runs nested jobs until done() holds. Whoever makes it hold calls `wake`.
  void serve(int replica, const std::function<bool()>& done);
  void wake() noexcept;

 private:
  struct Job {
    const std::function<void(int)>* function;
    std::atomic<int> num_running;
  };

  void start();

  const int num_replicas_;
  const int num_spins_;
  alignas(64) std::atomic<std::uint32_t> signal_{0};  // counts events that a parked thread must look at
  std::atomic<std::uint64_t> job_id_{0};
  std::atomic<Job*> job_{nullptr};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint32_t> finished_{0};  // counts jobs' ends, for the caller to wait on
  std::vector<std::uint64_t> seen_;                     // per replica, its own thread's: the last job it ran
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::detail
