// The machine's start and end, API entry and exit, errors, fault injection, tracing, the leak report, and the
// interface that libnccl and libcublas use.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include "runtime/state.hpp"

namespace vgpu::rt {
namespace {

struct ErrorEntry {
  cudaError_t value;
  const char* name;
  const char* text;
};
const ErrorEntry error_table[] = {
#define VGPU_ERROR(name, text) {name, #name, text},
#include "runtime/errors.inc"
#undef VGPU_ERROR
};

int exit_status = 0;

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

bool flag(const char* name, bool fallback) {
  const char* value = variable(name);
  return value ? std::strcmp(value, "0") != 0 : fallback;
}

std::uint64_t number(const char* name, std::uint64_t fallback) {
  const char* value = variable(name);
  if (!value) return fallback;
  char* end = nullptr;
  const std::uint64_t parsed = std::strtoull(value, &end, 0);
  if (*end) {
    std::fprintf(stderr, "vgpu: %s=%s is not a number\n", name, value);
    std::exit(2);
  }
  return parsed;
}

template <class T>
T choice(const char* name, const std::vector<std::pair<std::string, T>>& choices, T fallback) {
  const char* value = variable(name);
  if (!value) return fallback;
  std::string names;
  for (const auto& [word, meaning] : choices) {
    if (word == value) return meaning;
    names += (names.empty() ? "" : ", ") + word;
  }
  std::fprintf(stderr, "vgpu: %s=%s is none of %s\n", name, value, names.c_str());
  std::exit(2);
}

void parse_rules(const char* text) {
  // name:n[+][=error], separated by commas
  std::string all = text;
  std::size_t at = 0;
  while (at < all.size()) {
    const std::size_t end = std::min(all.find(',', at), all.size());
    std::string part = all.substr(at, end - at);
    at = end + 1;
    if (part.empty()) continue;
    FailRule rule;
    if (const auto equals = part.find('='); equals != std::string::npos) {
      rule.error = part.substr(equals + 1);
      part.resize(equals);
    }
    const auto colon = part.find(':');
    rule.name = part.substr(0, colon);
    std::string count = colon == std::string::npos ? "1" : part.substr(colon + 1);
    if (!count.empty() && count.back() == '+') {
      rule.onwards = true;
      count.pop_back();
    }
    rule.at = std::strtoull(count.c_str(), nullptr, 10);
    if (rule.at == 0) {
      std::fprintf(stderr, "vgpu: VGPU_FAIL: '%s' needs a call number from 1\n", rule.name.c_str());
      std::exit(2);
    }
    machine().rules.push_back(rule);
  }
}

Machine* make_machine() {
  auto* m = new Machine;  // never destroyed: the program's own destructors may still call
  Config& c = m->config;
  c.devices = static_cast<int>(number("VGPU_DEVICES", 4));
  if (c.devices < 0 || c.devices > 64) {
    std::fprintf(stderr, "vgpu: VGPU_DEVICES must be between 0 and 64\n");
    std::exit(2);
  }
  if (const char* cc = variable("VGPU_CC")) {
    std::string digits;
    for (const char* at = cc; *at; ++at)
      if (*at >= '0' && *at <= '9') digits += *at;
    c.cc = std::atoi(digits.c_str());
  }
  c.sms = static_cast<int>(number("VGPU_SMS", 132));
  c.memory = number("VGPU_MEMORY_MIB", 2048) << 20;
  c.seed = number("VGPU_SEED", 1);
  using Link = Config::Link;
  using Schedule = Config::Schedule;
  c.link = choice<Link>("VGPU_LINK", {{"none", Link::none}, {"pcie", Link::pcie}, {"nvlink", Link::nvlink}},
                        c.link);
  c.schedule = choice<Schedule>(
      "VGPU_SCHEDULE", {{"random", Schedule::random}, {"eager", Schedule::eager}, {"fifo", Schedule::fifo}},
      c.schedule);
  c.deadlock_ms = static_cast<unsigned>(number("VGPU_DEADLOCK_MS", 2000));
  c.idle_ms = static_cast<unsigned>(number("VGPU_IDLE_MS", 100));
  c.abort_on_deadlock = flag("VGPU_ABORT_ON_DEADLOCK", false);
  c.leak_check = flag("VGPU_LEAKCHECK", false);
  c.race_check = flag("VGPU_RACECHECK", false);
  c.lazy_memcpy = flag("VGPU_LAZY_MEMCPY", false);
  if (const char* trace = variable("VGPU_TRACE")) {
    if (!std::strcmp(trace, "1"))
      c.trace = stderr;
    else if (std::strcmp(trace, "0")) {
      c.trace = std::fopen(trace, "ae");
      if (!c.trace) std::fprintf(stderr, "vgpu: cannot open trace file %s\n", trace);
    }
  }
  m->random.seed(c.seed);
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
  if (const char* rules = variable("VGPU_FAIL")) parse_rules(rules);
  on_exit([](int status, void*) { exit_status = status; }, nullptr);
}

std::string leak_report(Machine& m) {
  std::string text;
  for (Allocation* allocation : m.memory.all()) {
    if (allocation->state == Allocation::State::freed || allocation->kind == Allocation::Kind::symbol)
      continue;
    if (allocation->from_graph) continue;
    if (allocation->origin.rfind("__", 0) == 0) continue;
    text += format("  %zu bytes at 0x%llx from %s (allocation #%llu, device %d)\n", allocation->bytes,
                   static_cast<unsigned long long>(allocation->start), allocation->origin.c_str(),
                   static_cast<unsigned long long>(allocation->id), allocation->device);
  }
  auto list = [&](const char* what, std::vector<std::uint64_t> ids) {
    std::sort(ids.begin(), ids.end());
    for (auto id : ids) text += format("  %s %llu\n", what, static_cast<unsigned long long>(id));
  };
  std::vector<std::uint64_t> ids;
  for (auto& [handle, stream] : m.streams) ids.push_back(stream->id);
  list("stream", ids);
  ids.clear();
  for (auto& [handle, event] : m.events) ids.push_back(event->id);
  list("event", ids);
  ids.clear();
  for (auto& [handle, graph] : m.graphs) ids.push_back(graph->id);
  list("graph", ids);
  ids.clear();
  for (auto& [handle, exec] : m.execs) ids.push_back(exec->id);
  list("executable graph", ids);
  for (auto& [pointer, object] : m.objects) text += "  " + object.first + " " + object.second + "\n";
  for (const void* pool : m.pools)
    if (!static_cast<const Pool*>(pool)->is_default) text += "  memory pool\n";
  return text;
}

Machine* created = nullptr;

__attribute__((destructor)) void finish() {
  if (!created || created->devices.empty()) return;
  Machine& m = *created;
  stop_idle_thread();
  Lock lock(m.mutex, std::try_to_lock);
  std::size_t pending = 0;
  for (auto& [id, lane] : m.lanes) pending += lane->queue.size();
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

class RuntimeImpl final : public Runtime {
 public:
  int device_count() override { return static_cast<int>(machine().devices.size()); }
  int current_device() override { return thread_state().device; }
  cudaError_t sticky(int device) override { return machine().devices[device]->sticky; }
  bool stream_info(cudaStream_t stream, int device, StreamInfo& info) override {
    Lock lock(machine().mutex);
    StreamObject* object = resolve_stream(stream, device);
    if (!object) return false;
    info = {object->device, object->id, object->capture != nullptr};
    return true;
  }
  PointerInfo pointer(const void* address) override {
    PointerInfo info;
    Allocation* allocation = machine().memory.find(to_address(address));
    if (!allocation) return info;
    info.device = allocation->device;
    info.start = allocation->start;
    info.bytes = allocation->bytes;
    info.available = allocation->start + allocation->bytes - to_address(address);
    using K = Allocation::Kind;
    if (allocation->state == Allocation::State::freed)
      info.kind = PointerInfo::Kind::freed;
    else if (allocation->on_device())
      info.kind = PointerInfo::Kind::device;
    else if (allocation->kind == K::managed)
      info.kind = PointerInfo::Kind::managed;
    else
      info.kind = PointerInfo::Kind::pinned;
    return info;
  }
  cudaError_t enqueue(cudaStream_t stream, int device, std::shared_ptr<CustomWork> work) override {
    Lock lock(machine().mutex);
    StreamObject* object = resolve_stream(stream, device);
    if (!object) return cudaErrorInvalidResourceHandle;
    if (machine().devices[device]->sticky != cudaSuccess) return machine().devices[device]->sticky;
    return submit(lock, *object, std::move(work), nullptr, device);
  }
  void join(const std::shared_ptr<Op>& op, const std::shared_ptr<Unit>& unit) override {
    op->units.push_back(unit);
    unit->members.push_back(op);
  }
  void poison(const std::shared_ptr<Unit>& unit, cudaError_t error, const std::string& message) override {
    for (const OpPtr& member : unit->members)
      if (!member->done) {
        member->poison = error;
        member->poison_message = message;
      }
    machine().changed.notify_all();
  }
  void cancel(const std::shared_ptr<Op>& op) override {
    if (op->done || op->running) return;
    op->units.clear();
    op->poison = cudaSuccess;
    op->work = EmptyWork{"aborted communication"};
    machine().changed.notify_all();
  }
  cudaError_t order(cudaStream_t earlier, int earlier_device, cudaStream_t later, int later_device) override {
    Lock lock(machine().mutex);
    StreamObject* first = resolve_stream(earlier, earlier_device);
    StreamObject* second = resolve_stream(later, later_device);
    if (!first || !second) return cudaErrorInvalidResourceHandle;
    if (first == second) return cudaSuccess;
    auto event = std::make_shared<EventObject>();
    event->device = earlier_device;
    if (cudaError_t error = submit(lock, *first, RecordWork{event}); error != cudaSuccess) return error;
    if (first->capture) {
      event->capture = first->capture;
      event->capture_nodes = first->capture_tail;
      if (!second->capture) {
        second->capture = first->capture;
        second->capture->streams.insert(second);
        second->capture_tail.clear();
      }
      for (Node* node : event->capture_nodes)
        if (std::find(second->capture_tail.begin(), second->capture_tail.end(), node) ==
            second->capture_tail.end())
          second->capture_tail.push_back(node);
      return cudaSuccess;
    }
    return submit(lock, *second, WaitWork{event});
  }
  cudaError_t wait(const std::function<bool()>& done, const std::string& what) override {
    Lock lock(machine().mutex);
    return wait_until(lock, done, what);
  }
  void poke() override {
    Lock lock(machine().mutex);
    rt::poke(lock);
  }
  bool peek(void* host, const void* address, std::size_t bytes) override {
    try {
      std::memcpy(host, machine().memory.translate(-1, to_address(address), bytes, false, "host read"),
                  bytes);
      return true;
    } catch (const Fault&) {
      return false;
    }
  }
  int inject(const char* api, const std::function<int(const std::string&)>& value_of, int fallback) override {
    if (machine().rules.empty()) return 0;
    Lock lock(machine().mutex);
    for (FailRule& rule : machine().rules) {
      if (rule.name != api) continue;
      ++rule.seen;
      if (rule.seen != rule.at && !(rule.onwards && rule.seen > rule.at)) continue;
      const int value = rule.error.empty() ? fallback : value_of(rule.error);
      report(format("injected failure of call %llu of %s", static_cast<unsigned long long>(rule.seen), api));
      return value;
    }
    return 0;
  }
  void trace(const std::string& line) override { log_op(line); }
  bool tracing() override { return machine().config.trace != nullptr; }
  void report(const std::string& text) override { rt::report(text); }
  void object_created(const char* kind, const void* object, const std::string& detail) override {
    Lock lock(machine().mutex);
    machine().objects[object] = {kind, detail};
  }
  void object_destroyed(const char*, const void* object) override {
    Lock lock(machine().mutex);
    machine().objects.erase(object);
  }
  unsigned deadlock_ms() override { return machine().config.deadlock_ms; }
  void external(int change) override { machine().external += change; }
  void lock() override { machine().mutex.lock(); }
  void unlock() override { machine().mutex.unlock(); }
  void notify() override {
    ++machine().progress;
    machine().changed.notify_all();
  }
  std::uint64_t thread_number() override { return thread_state().number; }
  bool finished(const std::shared_ptr<Op>& op) override { return op->done; }
};

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

ThreadState& thread_state() {
  static std::atomic<std::uint64_t> count{0};
  static thread_local ThreadState state;
  if (state.number == 0) state.number = ++count;
  return state;
}

bool trace_on() { return machine().config.trace != nullptr; }

cudaError_t error_by_name(const std::string& name, cudaError_t fallback) {
  for (const ErrorEntry& entry : error_table)
    if (name == entry.name) return entry.value;
  if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
    return static_cast<cudaError_t>(std::atoi(name.c_str()));
  report("VGPU_FAIL: there is no error called " + name);
  return fallback;
}

// Must be called without the lock.
cudaError_t injected(const char* name) {
  Machine& m = machine();
  if (m.rules.empty()) return cudaSuccess;
  Lock lock(m.mutex);
  for (FailRule& rule : m.rules) {
    if (rule.name != name) continue;
    ++rule.seen;
    if (rule.seen != rule.at && !(rule.onwards && rule.seen > rule.at)) continue;
    cudaError_t fallback = cudaErrorUnknown;
    if (std::strncmp(name, "cudaMalloc", 10) == 0 || std::strncmp(name, "cudaHostAlloc", 13) == 0)
      fallback = cudaErrorMemoryAllocation;
    else if (std::strncmp(name, "cudaLaunch", 10) == 0)
      fallback = cudaErrorLaunchOutOfResources;
    else if (std::strcmp(name, "kernel") == 0 || std::strcmp(name, "collective") == 0)
      fallback = cudaErrorLaunchFailure;
    else if (std::strcmp(name, "copy") == 0)
      fallback = cudaErrorIllegalAddress;
    const cudaError_t error = rule.error.empty() ? fallback : error_by_name(rule.error, fallback);
    report(format("injected failure of call %llu of %s: %s", static_cast<unsigned long long>(rule.seen), name,
                  cudaGetErrorName(error)));
    return error;
  }
  return cudaSuccess;
}

bool enter_api(const char* name, unsigned flags, Lock& lock, cudaError_t& error) {
  Machine& m = machine();
  ThreadState& thread = thread_state();
  if (m.devices.empty()) {
    error = cudaErrorNoDevice;
    return false;
  }
  if (thread.in_host_function && !(flags & no_record)) {
    report(std::string(name) +
           " was called from a host function or stream callback, where CUDA calls are forbidden");
    error = cudaErrorNotPermitted;
    return false;
  }
  error = injected(name);
  if (error != cudaSuccess) return false;
  lock = Lock(m.mutex);
  if (!(flags & no_sticky)) {
    error = m.devices[thread.device]->sticky;
    if (error != cudaSuccess) return false;
  }
  if (flags & unsafe) {
    error = check_unsafe(name);
    if (error != cudaSuccess) return false;
  }
  return true;
}

cudaError_t leave_api(Call& call, unsigned flags, Lock& lock, cudaError_t error) {
  ThreadState& thread = thread_state();
  if (lock.owns_lock()) lock.unlock();
  if (error != cudaSuccess && !(flags & no_record)) thread.last_error = error;
  if (trace_on() && !call.quiet)
    log_op(format("thread %llu device %d %s(%s)%s%s", static_cast<unsigned long long>(thread.number),
                  thread.device, call.name, call.info.c_str(), error == cudaSuccess ? "" : " = ",
                  error == cudaSuccess ? "" : cudaGetErrorName(error)));
  return error;
}

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

vgpu::rt::Runtime* vgpu_runtime() {
  static RuntimeImpl implementation;
  machine();
  return &implementation;
}

const char* cudaGetErrorName(cudaError_t error) {
  for (const ErrorEntry& entry : error_table)
    if (entry.value == error) return entry.name;
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  for (const ErrorEntry& entry : error_table)
    if (entry.value == error) return entry.text;
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  ThreadState& thread = thread_state();
  Machine& m = machine();
  if (!m.devices.empty() && m.devices[thread.device]->sticky != cudaSuccess)
    return m.devices[thread.device]->sticky;
  return std::exchange(thread.last_error, cudaSuccess);
}

int vgpu_unsupported(const char* name) {
  report(std::string(name) + " is not supported by vgpu");
  thread_state().last_error = cudaErrorNotSupported;
  return cudaErrorNotSupported;
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

cudaError_t cudaPeekAtLastError() {
  ThreadState& thread = thread_state();
  Machine& m = machine();
  if (!m.devices.empty() && m.devices[thread.device]->sticky != cudaSuccess)
    return m.devices[thread.device]->sticky;
  return thread.last_error;
}
}
