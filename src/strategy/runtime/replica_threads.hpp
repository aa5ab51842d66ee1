#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <lockstep/detail/function_ref.hpp>

#include "detail/parking.hpp"
#include "detail/process.hpp"

namespace lockstep::detail {

/// The persistent threads of a strategy's replicas. Replica 0 runs on the calling thread, replica i > 0 on
/// thread i, which the first `run` starts and the destructor joins. Idle threads spin briefly, then park. A
/// fork of the process has none of them: there this must not be destroyed once they are started.
class ReplicaThreads {
 public:
  /// @param on_start  each thread calls it first, with its replica; may be empty. Must not throw.
  explicit ReplicaThreads(int num_replicas, std::function<void(int)> on_start = {});
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  int num_replicas() const noexcept { return num_replicas_; }
  /// Whether the threads were started in a process that this one is a fork of. Thread-safe.
  bool is_forked() const noexcept { return started_in_.load(std::memory_order_relaxed).is_forked(); }
  /// Joins the threads. No `run` may be under way.
  void stop();

  /// Calls job(i) for every replica, all at the same time, and returns when all have returned. One call at a
  /// time; but job(0) may call it again once all other replicas have begun their jobs and are in `serve`, or
  /// will call it next. @pre job does not throw.
  /// @throws Error  a thread cannot be started; nothing has run then. @throws ContextError  job(0) has forked
  /// the process, in the child.
  void run(FunctionRef<void(int)> job);
  /// On replica i > 0, inside a job: runs nested jobs until done() holds. The thread that makes it hold calls
  /// `wake`.
  void serve(int replica, FunctionRef<bool()> done);
  /// Inside a job: waits until ready() holds, as Parking does.
  template <class Ready>
  void await(const Ready& ready) {
    parking_.wait(static_cast<std::uint64_t>(num_replicas_), ready);
  }
  void wake() noexcept { parking_.wake(); }

 private:
  struct alignas(2 * 64) Job {  // on cache lines apart from its caller's other variables
    FunctionRef<void(int)> function;
    std::atomic<int> num_running;
  };

  void start();

  const int num_replicas_;
  const std::function<void(int)> on_start_;
  Parking parking_;  // the caller, and replicas that wait for a job or for each other, park here
  alignas(64) std::atomic<std::uint64_t> job_id_{0};
  std::atomic<Job*> job_{nullptr};
  std::atomic<bool> stop_{false};
  std::vector<std::uint64_t> seen_;  // per replica: the last job that its thread has run
  std::vector<std::thread> threads_;
  std::atomic<Process> started_in_{Process::none()};
};

}  // namespace lockstep::detail
