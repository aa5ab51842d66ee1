#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "detail/file_descriptor.hpp"

namespace lockstep::test {

/// What became of a worker.
struct WorkerResult {
  int status = -1;              ///< That it ended with, or minus the signal that ended it.
  std::string output{};         ///< Standard output and error.
  bool timed_out = false;       ///< It was ended by the time limit.
  bool left_processes = false;  ///< Processes that it started outlived it. They are ended.
};

/// How the workers find each other.
enum class Launch { tf_config, torchrun, nothing };

struct WorkerProcessesOptions {
  Launch launch = Launch::tf_config;
  std::chrono::milliseconds time_limit{60'000};  ///< From the start; then the workers are killed.
  std::vector<std::string> environment{};        ///< "NAME=value", for all.
};

/// The processes of a cluster on this machine, each with the environment that a launcher gives. At the end of
/// the block all are gone, also when a check fails: nothing outlives this process or the time limit.
///
///     WorkerProcesses workers(2, [](int worker) { train(); return 0; });
///     workers.wait_for_output(1, "step 3");
///     workers.signal(1, SIGKILL);
///     const auto results = workers.wait();
///
/// Made in a process without other threads, on the thread that stays.
class WorkerProcesses {
 public:
  /// Forks. Each child calls f and ends with the status that it returns; an exception's text goes to its
  /// output, and the status is kThrew. No check of Catch2's may be in f.
  WorkerProcesses(int num_workers, const std::function<int(int worker)>& f,
                  WorkerProcessesOptions options = {});
  /// Starts a program with its arguments.
  WorkerProcesses(int num_workers, const std::vector<std::string>& command,
                  WorkerProcessesOptions options = {});
  ~WorkerProcesses();
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;

  int num_workers() const noexcept { return static_cast<int>(workers_.size()); }
  pid_t pid(int worker) const { return worker_at(worker).pid; }
  /// "127.0.0.1:2222"
  const std::vector<std::string>& addresses() const noexcept { return addresses_; }

  void signal(int worker, int number) const;
  /// Whether a signal keeps the worker from going on.
  bool is_stopped(int worker) const;
  /// Returns once the worker's output has the text. @return false: it ended without, or the time is over.
  bool wait_for_output(int worker, std::string_view text);
  /// Returns once the worker has ended.
  const WorkerResult& wait(int worker);
  /// All, in order.
  std::vector<WorkerResult> wait();

 private:
  struct Worker {
    pid_t pid = -1;
    detail::FileDescriptor process{}, output{};
    WorkerResult result{};
    bool has_ended = false;
  };

  const Worker& worker_at(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  void start(int worker, const std::function<int(int worker)>& f);
  /// Waits for what any worker writes, or for an end. @return false: all have ended.
  bool poll();
  void read(Worker& worker);
  void end(Worker& worker);
  void kill_all(bool timed_out);

  WorkerProcessesOptions options_;
  std::chrono::steady_clock::time_point end_;
  std::vector<std::string> addresses_;
  std::vector<Worker> workers_;
};

/// Addresses on 127.0.0.1 whose ports nobody listens on.
std::vector<std::string> free_addresses(int count);

}  // namespace lockstep::test
