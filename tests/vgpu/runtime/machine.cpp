// The machine's start and end.
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <pthread.h>
#include <unistd.h>

#include "runtime/state.hpp"

namespace vgpu::rt {

namespace {

int exit_status = 0;

Machine* make_machine() {
  auto* m = new Machine;  // never destroyed: the program's own destructors may still call
  m->config = read_config();
  m->seed = m->config.seed;
  m->random.seed(m->seed);
  return m;
}

void start(Machine& m) {
  m.memory.initialise(m.config);
  for (int index = 0; index < m.config.devices; ++index) {
    auto device = std::make_unique<Device>();
    device->index = index;
    auto* pool = new Pool;
    pool->device = index;
    pool->is_default = true;
    device->default_pool = device->current_pool = pool;
    m.pools.insert(pool);
    auto* legacy = new StreamObject;
    legacy->device = index;
    legacy->legacy = true;
    initialise_lane(legacy->lane, index, "legacy default stream");
    device->legacy = legacy;
    device->streams.insert(legacy);
    device->limits[cudaLimitStackSize] = 1024;
    device->limits[cudaLimitPrintfFifoSize] = 7 << 20;
    device->limits[cudaLimitMallocHeapSize] = 8 << 20;
    device->limits[cudaLimitDevRuntimeSyncDepth] = 2;
    device->limits[cudaLimitDevRuntimePendingLaunchCount] = 2048;
    device->limits[cudaLimitMaxL2FetchGranularity] = 128;
    m.devices.push_back(std::move(device));
  }
  m.rules = read_fail_rules();
  if (!m.config.counts_file.empty()) counters().start();
  on_exit([](int status, void*) { exit_status = status; }, nullptr);
}

Machine* created = nullptr;

std::atomic<bool> forked{false};

void write_counts(const std::string& path) {
  if (path.empty()) return;
  const std::string text = counters().json(nullptr);
  FILE* const file = std::fopen(path.c_str(), "we");
  const bool is_written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((file && std::fclose(file) != 0) || !is_written)
    report("VGPU_STATS: cannot write " + path + ": " + std::strerror(errno));
}

__attribute__((destructor)) void finish() {
  if (!created || created->devices.empty() || forked) return;
  Machine& m = *created;
  stop_idle_thread();
  Lock lock(m.mutex, std::try_to_lock);
  std::size_t pending = 0;
  for (auto& [id, lane] : m.lanes) pending += lane->queue.size();
  write_counts(m.config.counts_file);
  int status = 0;
  if (m.config.leak_check) {
    std::string leaks = leak_report(m);
    if (pending) leaks += format("  %zu operations were queued and never waited for\n", pending);
    if (!leaks.empty()) {
      report("LEAKS at exit:\n" + leaks);
      status = 86;
    } else {
      report("no leaks");
    }
  }
  if (m.config.race_check) {
    report(format("%llu data races found", static_cast<unsigned long long>(m.races)));
    if (m.races) status = status ? status : 87;
  }
  if (m.config.trace)
    log_op(format("exit: %llu operations run, %zu never run", static_cast<unsigned long long>(m.executed),
                  pending));
  if (status && exit_status == 0) {
    std::fflush(nullptr);
    _exit(status);
  }
}

}  // namespace

Machine& machine() {
  static Machine* const m = [] {
    Machine* made = make_machine();
    created = made;
    return made;
  }();
  static std::once_flag once;
  static std::atomic<bool> started{false};
  static thread_local bool starting = false;
  if (!started.load(std::memory_order_acquire) && !starting) {
    starting = true;
    std::call_once(once, [] {
      start(*created);
      started.store(true, std::memory_order_release);
    });
    starting = false;
  }
  return *m;
}

cudaError_t unusable() {
  // From the first call on: what the driver has begun in one process is of no use to its forks.
  static const bool watches_forks = pthread_atfork(nullptr, nullptr, [] { forked = true; }) == 0;
  if (watches_forks && forked) return cudaErrorInitializationError;
  const Config& config = machine().config;
  if (config.driver / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
  if (!config.fabric_manager) return cudaErrorSystemNotReady;
  return config.devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

ThreadState& thread_state() {
  static std::atomic<std::uint64_t> count{0};
  static thread_local ThreadState state;
  if (state.number == 0) state.number = ++count;
  return state;
}

}  // namespace vgpu::rt

extern "C" void vgpu_seed(unsigned long long seed) {
  vgpu::rt::Machine& m = vgpu::rt::machine();
  const vgpu::rt::Lock guard(m.mutex);
  m.seed = seed;
  m.random.seed(seed);
}
