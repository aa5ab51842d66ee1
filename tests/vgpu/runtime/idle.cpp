// Progress that nobody waits for.
#include <chrono>

#include <pthread.h>

#include "runtime/state.hpp"

namespace vgpu::rt {

namespace {

// Runs operations that nobody has waited for: hardware needs no host thread to make progress, and a program
// may wait on something a host function or a copy to pinned memory will change.
void run_idle_thread() {
  Machine& m = machine();
  const auto idle = std::chrono::milliseconds(m.config.idle_ms);
  Lock lock(m.mutex);
  while (true) {
    m.changed.wait(lock, [&] { return m.stopping || !m.lanes.empty(); });
    if (m.stopping) break;
    const std::uint64_t seen = m.progress;
    const bool moved = m.changed.wait_for(lock, idle, [&] { return m.stopping || m.progress != seen; });
    if (m.stopping) break;
    if (moved || m.waiters > 0 || m.executing) {
      m.changed.wait_for(lock, std::chrono::milliseconds(5), [&] { return m.stopping; });
      continue;
    }
    const std::uint64_t enqueued = m.next_op;
    while (!m.stopping && m.waiters == 0 && m.next_op == enqueued && step(lock) == Step::ran) {
    }
  }
  m.idle_thread = false;
  m.changed.notify_all();
}

}  // namespace

void start_idle_thread() {
  Machine& m = machine();
  if (m.idle_thread || m.stopping || m.config.idle_ms == 0) return;
  static const bool forks = pthread_atfork(nullptr, nullptr, [] { machine().idle_thread = false; }) == 0;
  m.idle_thread = forks;
  if (forks) std::thread(run_idle_thread).detach();
}

void stop_idle_thread() {
  Machine& m = machine();
  Lock lock(m.mutex, std::try_to_lock);
  if (!lock) return;  // some thread was ended inside a call
  m.stopping = true;
  m.changed.notify_all();
  m.changed.wait_for(lock, std::chrono::seconds(1), [&] { return !m.idle_thread; });
}

}  // namespace vgpu::rt
