#pragma once

#include <atomic>
#include <mutex>
#include <string_view>

#include <sys/types.h>

#include <lockstep/backend/process_group.hpp>

#include "engines/first_cause.hpp"
#include "engines/mpi/mpi.hpp"

namespace lockstep::engines {

/// MPI in this process. It is started once, by the first engine unless the program has done so, and ended at
/// the process's exit if an engine started it.
///
/// What would write to memory of an aborted call must not make progress any more, as that may be gone. So
/// where such a call cannot be taken back, and when a process is lost, MPI is not called again, not even to
/// end it; Open MPI's launcher then ends the other processes.
class MpiProcess {
 public:
  static MpiProcess& get();

  /// @throws Unsupported  the process was not started by a launcher.
  /// @throws ContextError  the program has started MPI without threads, or has ended it.
  void start(int num_processes);

  /// Whether MPI can be called.
  bool is_usable() const noexcept;
  /// From now on it cannot. Any thread.
  void abandon() noexcept { has_failed_.store(true, std::memory_order_release); }

  /// Calls f, which calls MPI: alone, where threads may not be in MPI at the same time.
  /// @throws CollectiveAborted  the call failed: has MPI's words.
  template <class F>
  void call(std::string_view operation, const F& f) {
    int error = MPI_SUCCESS;
    {
      std::unique_lock lock(mutex_, std::defer_lock);
      if (!has_many_threads_) lock.lock();
      error = f();
    }
    if (error != MPI_SUCCESS) fail(operation, error);
  }

  /// Waits for a request that was begun, within a Use.
  /// @param missing  who is waited for: "process 2".
  /// @throws CollectiveTimeout, CollectiveAborted
  void wait(std::string_view operation, MPI_Request& request, std::string_view missing,
            const FirstCause& cause, backend::Deadline deadline);

  /// A use of MPI, which the process's exit does not end.
  class Use {
   public:
    Use() { get().num_uses_.fetch_add(1, std::memory_order_seq_cst); }
    ~Use() { get().num_uses_.fetch_sub(1, std::memory_order_seq_cst); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
  };

 private:
  [[noreturn]] void fail(std::string_view operation, int error);
  void end() noexcept;

  std::mutex mutex_;  // of starting, and of calls where there are not many threads
  bool is_started_ = false;
  bool has_many_threads_ = false;
  pid_t pid_ = 0;  // of the process that has started it
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> has_ended_{false};
  std::atomic<int> num_uses_{0};
};

}  // namespace lockstep::engines
