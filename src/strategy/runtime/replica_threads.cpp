#include "strategy/runtime/replica_threads.hpp"

#include <cstddef>
#include <exception>
#include <functional>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/numa.hpp"
#include "detail/start_thread.hpp"
#include "detail/warn.hpp"

namespace lockstep::detail {

namespace {

/// For a fork that a replica's function has made, on the replica's thread, and returned in: the caller's
/// thread is not there.
[[noreturn]] void end_fork(int replica) {
  warn(concat("run: replica ", replica,
              "'s function has forked the process, and returned in the child, which ",
              "has none of the other replicas. End the child in the function, by _exit or exec."));
  std::terminate();
}

}  // namespace

ReplicaThreads::ReplicaThreads(int num_replicas, std::function<void(int)> on_start)
    : num_replicas_(num_replicas),
      on_start_(std::move(on_start)),
      seen_(static_cast<std::size_t>(num_replicas), 0) {}

ReplicaThreads::~ReplicaThreads() { stop(); }

void ReplicaThreads::stop() {
  stop_.store(true, std::memory_order_seq_cst);
  wake();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ReplicaThreads::start() {
  const int core = Numa::machine().core();
  started_in_.store(Process(), std::memory_order_relaxed);
  threads_.reserve(static_cast<std::size_t>(num_replicas_ - 1));  // nobody would join one that finds no place
  while (static_cast<int>(threads_.size()) < num_replicas_ - 1) {
    const int replica = static_cast<int>(threads_.size()) + 1;
    threads_.push_back(start_thread(
        concat("run: the thread of replica ", replica, " of ", num_replicas_), [this, replica, core] {
          if (on_start_) on_start_(replica);
          Numa::machine().move_to_core(core + replica);
          serve(replica, [this] { return stop_.load(std::memory_order_seq_cst); });
        }));
  }
}

void ReplicaThreads::run(FunctionRef<void(int)> job) {
  if (num_replicas_ == 1) {
    job(0);
    return;
  }
  if (static_cast<int>(threads_.size()) < num_replicas_ - 1) start();
  Job* const outer = job_.load(std::memory_order_relaxed);
  Job current{job, num_replicas_ - 1};
  job_.store(&current, std::memory_order_relaxed);
  job_id_.fetch_add(1, std::memory_order_seq_cst);
  wake();
  job(0);
  LOCKSTEP_EXPECTS(
      !is_forked(), ContextError,
      "run: replica 0's function has forked the process, and this is the child, which has none of "
      "the other replicas. End it in the function, by _exit or exec.");
  await([&] { return current.num_running.load(std::memory_order_seq_cst) == 0; });
  job_.store(outer, std::memory_order_relaxed);
}

void ReplicaThreads::serve(int replica, FunctionRef<bool()> done) {
  std::uint64_t& seen = seen_[static_cast<std::size_t>(replica)];
  for (;;) {
    await([&] { return job_id_.load(std::memory_order_seq_cst) != seen || done(); });
    const std::uint64_t id = job_id_.load(std::memory_order_acquire);
    if (id == seen) return;
    seen = id;
    Job* const job = job_.load(std::memory_order_relaxed);
    // Prefetch 1 KiB of the caller's stack: the function's captures are usually there, and one line would
    // lead to the next.
    for (int line = 0; line < 16; ++line)
      __builtin_prefetch(reinterpret_cast<const std::byte*>(job) + 64 * line);
    job->function(replica);
    if (is_forked()) end_fork(replica);
    if (job->num_running.fetch_sub(1, std::memory_order_seq_cst) == 1) wake();  // `job` is gone
  }
}

}  // namespace lockstep::detail
