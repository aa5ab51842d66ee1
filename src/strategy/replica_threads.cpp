#include "strategy/replica_threads.hpp"

#include <lockstep/detail/concat.hpp>

#include "detail/start_thread.hpp"

namespace lockstep::detail {

namespace {

// About 20 µs of waiting without a system call, and none where threads outnumber cores: there, spinning only
// delays the others.
int spins_for(int num_threads) {
  return std::thread::hardware_concurrency() >= static_cast<unsigned>(num_threads) ? 4000 : 0;
}

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Waits until ready() holds; `event` changes, and is notified, after everything that may make it hold.
template <class Ready>
void await(const std::atomic<std::uint32_t>& event, int num_spins, Ready ready) {
  for (int spin = 0; spin < num_spins; ++spin) {
    if (ready()) return;
    pause();
  }
  for (;;) {
    const std::uint32_t before = event.load(std::memory_order_acquire);
    if (ready()) return;
    event.wait(before, std::memory_order_acquire);
  }
}

}  // namespace

ReplicaThreads::ReplicaThreads(int num_replicas)
    : num_replicas_(num_replicas),
      num_spins_(spins_for(num_replicas)),
      seen_(static_cast<std::size_t>(num_replicas), 0) {}

ReplicaThreads::~ReplicaThreads() {
  stop_.store(true, std::memory_order_release);
  wake();
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaThreads::wake() noexcept {
  signal_.fetch_add(1, std::memory_order_release);
  signal_.notify_all();
}

void ReplicaThreads::start() {
  while (static_cast<int>(threads_.size()) < num_replicas_ - 1) {
    const int replica = static_cast<int>(threads_.size()) + 1;
    threads_.push_back(start_thread(
        concat("run: the thread of replica ", replica, " of ", num_replicas_),
        [this, replica] { serve(replica, [this] { return stop_.load(std::memory_order_acquire); }); }));
  }
}

void ReplicaThreads::run(const std::function<void(int)>& job) {
  if (num_replicas_ == 1) {
    job(0);
    return;
  }
  start();
  Job* const outer = job_.load(std::memory_order_relaxed);
  Job current{&job, num_replicas_ - 1};
  job_.store(&current, std::memory_order_relaxed);
  job_id_.fetch_add(1, std::memory_order_release);
  wake();
  job(0);
  await(finished_, num_spins_, [&] { return current.num_running.load(std::memory_order_acquire) == 0; });
  job_.store(outer, std::memory_order_relaxed);
}

void ReplicaThreads::serve(int replica, const std::function<bool()>& done) {
  std::uint64_t& seen = seen_[static_cast<std::size_t>(replica)];
  for (;;) {
    await(signal_, num_spins_, [&] { return job_id_.load(std::memory_order_acquire) != seen || done(); });
    const std::uint64_t id = job_id_.load(std::memory_order_acquire);
    if (id == seen) return;
    seen = id;
    Job* const job = job_.load(std::memory_order_relaxed);
    (*job->function)(replica);
    // After the last decrement `job` is gone: the caller is told through a member.
    if (job->num_running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      finished_.fetch_add(1, std::memory_order_release);
      finished_.notify_all();
    }
  }
}

}  // namespace lockstep::detail
