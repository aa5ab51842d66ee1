// The scheduler: operations run lazily, one at a time, when some host thread waits; which of the ready stream
// heads runs next is drawn from a seeded generator.
#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <thread>

#include <cxxabi.h>
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "runtime/state.hpp"

namespace vgpu::rt {
namespace {

using Time = std::chrono::steady_clock;

class Context : public RunContext {
 public:
  explicit Context(std::string name) : name_(std::move(name)) {}
  void* access(int device, const void* address, std::size_t bytes, bool write) override {
    return machine().memory.translate(device, to_address(address), bytes, write, name_);
  }
  [[noreturn]] void fail(cudaError_t error, const std::string& message) override {
    throw Fault{error, name_ + ": " + message};
  }

 private:
  std::string name_;
};

std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

bool dependencies_done(const Op& op) {
  return std::all_of(op.deps.begin(), op.deps.end(), [](const OpPtr& dep) { return dep->done; });
}

// By how the executor begins its message (what follows names the kernel).
cudaError_t fault_code(const std::string& text) {
  auto begins = [&](const char* words) { return text.rfind(words, 0) == 0; };
  if (begins("misaligned")) return cudaErrorMisalignedAddress;
  if (begins("device-side assert")) return cudaErrorAssert;
  if (begins("trap")) return cudaErrorLaunchFailure;
  if (begins("stack overflow")) return cudaErrorHardwareStackError;
  const std::string head = text.substr(0, text.find(": kernel "));
  if (head.find("deadlock") != std::string::npos || head.find("barrier") != std::string::npos ||
      head.find("too long") != std::string::npos)
    return cudaErrorLaunchTimeout;
  if (head.find("illegal instruction") != std::string::npos) return cudaErrorIllegalInstruction;
  return head.find("address") != std::string::npos ? cudaErrorIllegalAddress : cudaErrorLaunchFailure;
}

void run_kernel(const Op& op, const KernelWork& work) {
  Machine& m = machine();
  if (cudaError_t error = injected("kernel"); error != cudaSuccess)
    throw Fault{error, "injected failure of kernel " + work.kernel->pretty};
  Launch launch;
  launch.device = op.device;
  launch.grid = work.grid;
  launch.block = work.block;
  launch.dynamic_shared_bytes = work.shared;
  launch.parameters = work.parameters;
  launch.cooperative = work.cooperative;
  launch.multiprocessors = m.config.sms;
  launch.seed = mix(m.config.seed ^ (op.id << 20));
  launch.symbol = [&](std::string_view name) -> std::uint64_t {
    Lock guard(m.mutex);
    return variable_address(*work.kernel->module, op.device, name);
  };
  try {
    execute(*work.kernel->module->module, work.kernel->name, launch, m.memory);
  } catch (const KernelFault& fault) {
    // The executor knows the address, the runtime what lies there.
    std::string text = fault.what();
    unsigned long long address = 0, bytes = 0;
    const auto of = text.find(" of "), at = text.find("address 0x");
    const bool global = text.rfind("invalid ", 0) == 0 || text.rfind("misaligned ", 0) == 0;
    if (global && at != std::string::npos &&
        std::sscanf(text.c_str() + at, "address 0x%llx", &address) == 1) {
      if (of != std::string::npos) std::sscanf(text.c_str() + of, " of %llu bytes", &bytes);
      text += "\n  " + m.memory.explain(op.device, address, bytes ? bytes : 1);
    }
    throw Fault{fault_code(fault.what()), text};
  } catch (const UnsupportedPtx& unsupported) {
    throw Fault{cudaErrorInvalidPtx, std::string("PTX that vgpu does not support: ") + unsupported.what()};
  }
}

char* endpoint_row(const Endpoint& end, std::size_t offset, std::size_t bytes, bool write,
                   const CopyWork& work, const std::string& who) {
  switch (end.kind) {
    case Endpoint::Kind::raw: return reinterpret_cast<char*>(end.address + offset);
    case Endpoint::Kind::snapshot: return work.snapshot->data() + offset;
    default: return machine().memory.translate(-1, end.address + offset, bytes, write, who);
  }
}

void run_copy(const Op& op, const CopyWork& work) {
  if (cudaError_t error = injected("copy"); error != cudaSuccess)
    throw Fault{error, "injected failure of a copy"};
  if (work.bytes() == 0) return;
  const std::string who = op.name();
  const bool flat =
      work.depth == 1 && (work.height == 1 || (work.to.pitch == work.width && work.from.pitch == work.width));
  if (flat) {
    const std::size_t bytes = work.width * work.height;
    const char* from = endpoint_row(work.from, 0, bytes, false, work, who);
    std::memmove(endpoint_row(work.to, 0, bytes, true, work, who), from, bytes);
    return;
  }
  for (std::size_t slice = 0; slice < work.depth; ++slice)
    for (std::size_t row = 0; row < work.height; ++row) {
      const char* from = endpoint_row(work.from, slice * work.from.slice + row * work.from.pitch, work.width,
                                      false, work, who);
      std::memmove(
          endpoint_row(work.to, slice * work.to.slice + row * work.to.pitch, work.width, true, work, who),
          from, work.width);
    }
}

void run_set(const Op& op, const SetWork& work) {
  if (work.bytes() == 0) return;
  const std::string who = op.name();
  auto fill = [&](Address address, std::size_t bytes) {
    char* to = machine().memory.translate(-1, address, bytes, true, who);
    if (work.element == 1) {
      std::memset(to, static_cast<int>(work.value), bytes);
    } else {
      for (std::size_t at = 0; at < bytes; at += work.element)
        std::memcpy(to + at, &work.value, work.element);
    }
  };
  if (work.depth == 1 && (work.height == 1 || work.pitch == work.width))
    return fill(work.address, work.width * work.height);
  for (std::size_t slice = 0; slice < work.depth; ++slice)
    for (std::size_t row = 0; row < work.height; ++row)
      fill(work.address + slice * work.slice + row * work.pitch, work.width);
}

void run_free(const FreeWork& work) {
  Allocation& allocation = *work.allocation;
  Machine& m = machine();
  Lock guard(m.mutex);
  if (allocation.state == Allocation::State::freed) return;
  const std::size_t bytes = allocation.charged;
  Pool* pool = allocation.pool;
  m.memory.release(allocation, allocation.from_graph ? "a graph's free node" : "cudaFreeAsync");
  if (pool) {
    pool->used -= std::min<std::uint64_t>(pool->used, bytes);
    pool->cached += bytes;
  }
}

double cost(const Op& op) {
  struct {
    double operator()(const EmptyWork&) { return 0; }
    double operator()(const KernelWork& work) {
      return 4000 + 20.0 * static_cast<double>(work.grid.count()) * (work.block.count() + 31) / 32 / 132;
    }
    double operator()(const CopyWork& work) { return 2000 + static_cast<double>(work.bytes()) / 40; }
    double operator()(const SetWork& work) { return 1500 + static_cast<double>(work.bytes()) / 2000; }
    double operator()(const HostWork&) { return 5000; }
    double operator()(const RecordWork&) { return 0; }
    double operator()(const WaitWork&) { return 0; }
    double operator()(const AllocateWork&) { return 500; }
    double operator()(const FreeWork&) { return 500; }
    double operator()(const ChildWork&) { return 0; }
    double operator()(const std::shared_ptr<CustomWork>& work) { return work->nanoseconds(); }
  } visitor;
  return std::visit(visitor, op.work);
}

struct Candidate {
  OpPtr op;
  std::shared_ptr<Unit> unit;
};

std::vector<Candidate> candidates() {
  Machine& m = machine();
  std::vector<Candidate> ready;
  for (auto& [id, lane] : m.lanes) {
    Op& op = *lane->queue.front();
    if (!op.at_head && !op.running && dependencies_done(op)) op.at_head = true;
  }
  for (auto& [id, lane] : m.lanes) {
    const OpPtr& op = lane->queue.front();
    if (!op->at_head || op->running) continue;
    if (op->units.empty() || op->poison != cudaSuccess || m.devices[op->device]->sticky != cudaSuccess) {
      ready.push_back({op, nullptr});
      continue;
    }
    for (const auto& unit : op->units) {
      if (unit->done || !unit->complete() || unit->members.front() != op) continue;
      const bool all = std::all_of(unit->members.begin(), unit->members.end(), [&](const OpPtr& member) {
        return member->at_head && !member->running && !member->done && member->poison == cudaSuccess &&
               m.devices[member->device]->sticky == cudaSuccess;
      });
      if (all && unit->ready()) ready.push_back({op, unit});
    }
  }
  return ready;
}

std::size_t choose(const std::vector<Candidate>& ready) {
  Machine& m = machine();
  if (m.config.schedule != Config::Schedule::random) {
    std::size_t best = 0;
    for (std::size_t index = 1; index < ready.size(); ++index)
      if (ready[index].op->id < ready[best].op->id) best = index;
    return best;
  }
  // A mixture: uniform draws, and draws by lane priorities that seldom change, which starve a stream for
  // long.
  const std::uint64_t draw = m.random();
  if (ready.size() == 1) return 0;
  if (draw & 1) return (draw >> 8) % ready.size();
  std::size_t best = 0;
  for (std::size_t index = 1; index < ready.size(); ++index)
    if (ready[index].op->lane->priority > ready[best].op->lane->priority) best = index;
  if ((draw & 0xE) == 0) ready[best].op->lane->priority = static_cast<double>(draw >> 11);
  return best;
}

void complete(const OpPtr& op) {
  Machine& m = machine();
  Lane& lane = *op->lane;
  op->done = true;
  op->running = false;
  double start = lane.finish;
  for (const OpPtr& dep : op->deps) start = std::max(start, dep->finish);
  op->finish = std::max(op->finish, start + cost(*op));
  lane.finish = op->finish;
  m.virtual_now = std::max(m.virtual_now, op->finish);
  op->deps.clear();
  op->units.clear();
  op->work = EmptyWork{};
  ++m.progress;
  ++m.executed;
  lane.queue.pop_front();
  if (lane.queue.empty()) m.lanes.erase(lane.id);
}

void bury_streams() {
  // Destroyed streams whose work is done.
  for (auto& device : machine().devices)
    for (auto at = device->streams.begin(); at != device->streams.end();) {
      StreamObject* stream = *at;
      if (stream->destroyed && stream->lane.queue.empty()) {
        at = device->streams.erase(at);
        // Kept allocated: operations and events may still point to its lane.
      } else {
        ++at;
      }
    }
}

int thread_count() {
  int count = 0;
  if (DIR* directory = opendir("/proc/self/task")) {
    while (dirent* entry = readdir(directory)) count += entry->d_name[0] != '.';
    closedir(directory);
  } else {
    count = 2;
  }
  return count;
}

}  // namespace

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char* text = nullptr;
  const int length = vasprintf(&text, pattern, arguments);
  va_end(arguments);
  if (length < 0) return {};
  std::string result(text, length);
  std::free(text);
  return result;
}

void report(const std::string& text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += "vgpu: " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  std::fwrite(out.data(), 1, out.size(), stderr);
  std::fflush(stderr);
  if (FILE* trace = machine().config.trace; trace && trace != stderr) {
    std::fwrite(out.data(), 1, out.size(), trace);
    std::fflush(trace);
  }
}

void log_op(const std::string& line) {
  if (FILE* trace = machine().config.trace) {
    std::fprintf(trace, "[vgpu] %s\n", line.c_str());
    std::fflush(trace);
  }
}

std::string describe(const Work& work) {
  struct {
    std::string operator()(const EmptyWork& empty) { return empty.label; }
    std::string operator()(const KernelWork& kernel) {
      return format("kernel %s <<<(%u,%u,%u),(%u,%u,%u),%zu>>>", kernel.kernel->pretty.c_str(), kernel.grid.x,
                    kernel.grid.y, kernel.grid.z, kernel.block.x, kernel.block.y, kernel.block.z,
                    kernel.shared);
    }
    std::string operator()(const CopyWork& copy) {
      return format("copy %s of %zu bytes", copy.direction, copy.bytes());
    }
    std::string operator()(const SetWork& set) { return format("memset of %zu bytes", set.bytes()); }
    std::string operator()(const HostWork&) { return "host function"; }
    std::string operator()(const RecordWork& record) {
      return format("record of event %llu", static_cast<unsigned long long>(record.event->id));
    }
    std::string operator()(const WaitWork& wait) {
      return wait.event ? format("wait for event %llu", static_cast<unsigned long long>(wait.event->id))
                        : std::string("wait");
    }
    std::string operator()(const AllocateWork& work) {
      return format("allocation of %zu bytes", work.allocation->bytes);
    }
    std::string operator()(const FreeWork& work) {
      return format("free of %zu bytes", work.allocation->bytes);
    }
    std::string operator()(const ChildWork&) { return "child graph"; }
    std::string operator()(const std::shared_ptr<CustomWork>& work) { return work->describe(); }
  } visitor;
  return std::visit(visitor, work);
}

std::string Op::name() const {
  return format("%s (operation %llu, device %d, %s)", describe(work).c_str(),
                static_cast<unsigned long long>(id), device, lane ? lane->label.c_str() : "no stream");
}

void initialise_lane(Lane& lane, int device, std::string label) {
  Machine& m = machine();
  lane.id = m.next_lane++;
  lane.device = device;
  lane.label = std::move(label);
  lane.priority = static_cast<double>(mix(m.config.seed * 1000003 + lane.id) >> 11);
  lane.slot = m.race_slots++;
  lane.finish = m.virtual_now;
}

OpPtr make_op(int device, Work work) {
  auto op = std::make_shared<Op>();
  op->device = device;
  op->work = std::move(work);
  return op;
}

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

void append(Lane& lane, const OpPtr& op) {
  Machine& m = machine();
  start_idle_thread();
  op->id = m.next_op++;
  op->lane = &lane;
  op->lane_slot = lane.slot;
  if (m.config.race_check) op->clock = m.host_clock;
  op->finish = m.virtual_now * 0;
  if (lane.queue.empty()) m.lanes[lane.id] = &lane;
  lane.queue.push_back(op);
  lane.last = op;
  ++m.progress;
  if (auto* custom = std::get_if<std::shared_ptr<CustomWork>>(&op->work)) (*custom)->bind(op);
  m.changed.notify_all();
}

void raise_sticky(int device, cudaError_t error, const std::string& message) {
  Device& d = *machine().devices[device];
  report(format("FAULT on device %d: %s\n  every later call on device %d returns %s", device, message.c_str(),
                device, cudaGetErrorName(error)));
  if (d.sticky == cudaSuccess) {
    d.sticky = error;
    d.sticky_message = message;
  }
  machine().changed.notify_all();
}

Step step(Lock& lock) {
  Machine& m = machine();
  std::vector<Candidate> ready = candidates();
  if (m.executing) {
    // Another thread is running an operation; only host functions may run beside it.
    std::erase_if(ready, [](const Candidate& c) { return !std::holds_alternative<HostWork>(c.op->work); });
    if (ready.empty()) return Step::busy;
  }
  if (ready.empty()) return Step::none;
  const Candidate chosen = ready[choose(ready)];
  const OpPtr op = chosen.op;
  std::vector<OpPtr> members = chosen.unit ? chosen.unit->members : std::vector<OpPtr>{op};

  // A device that failed drops its work, and a poisoned operation makes its device fail.
  if (!chosen.unit && m.devices[op->device]->sticky != cudaSuccess) {
    op->skipped = true;
    if (auto* free = std::get_if<FreeWork>(&op->work)) {
      const FreeWork work = *free;
      lock.unlock();
      run_free(work);
      lock.lock();
    }
    complete(op);
    m.changed.notify_all();
    return Step::ran;
  }
  if (!chosen.unit && op->poison != cudaSuccess) {
    raise_sticky(op->device, op->poison, op->name() + ": " + op->poison_message);
    complete(op);
    m.changed.notify_all();
    return Step::ran;
  }

  const std::string name = chosen.unit ? chosen.unit->describe() : op->name();
  for (const OpPtr& member : members) member->running = true;
  const bool host = std::holds_alternative<HostWork>(op->work);
  if (m.config.trace)
    log_op(format("run #%llu %s", static_cast<unsigned long long>(m.executed), name.c_str()));
  std::vector<Access> accesses;
  if (m.config.race_check) {
    for (const OpPtr& member : members) race_begin(*member);
    if (!host) {
      m.memory.recorder = [&accesses](Address address, std::size_t bytes, bool write) {
        for (std::size_t back = 0; back < 4 && back < accesses.size(); ++back) {
          Access& last = accesses[accesses.size() - 1 - back];
          if (last.write == write && address <= last.end && address + bytes >= last.begin) {
            last.begin = std::min(last.begin, address);
            last.end = std::max(last.end, address + bytes);
            return;
          }
        }
        accesses.push_back({address, address + bytes, write});
      };
    }
  }
  if (host) {
    ++m.host_functions;
  } else {
    m.executing = true;
  }
  lock.unlock();
  std::optional<Fault> failure;
  try {
    Context context(name);
    if (chosen.unit) {
      if (cudaError_t error = injected("collective"); error != cudaSuccess)
        throw Fault{error, "injected failure of " + name};
      chosen.unit->run(context);
    } else if (auto* kernel = std::get_if<KernelWork>(&op->work)) {
      run_kernel(*op, *kernel);
    } else if (auto* copy = std::get_if<CopyWork>(&op->work)) {
      run_copy(*op, *copy);
    } else if (auto* set = std::get_if<SetWork>(&op->work)) {
      run_set(*op, *set);
    } else if (auto* function = std::get_if<HostWork>(&op->work)) {
      ThreadState& thread = thread_state();
      const bool outer = thread.in_host_function;
      thread.in_host_function = true;
      if (function->function) function->function(function->data);
      if (function->callback)
        function->callback(function->stream, m.devices[op->device]->sticky, function->data);
      thread.in_host_function = outer;
    } else if (auto* allocate = std::get_if<AllocateWork>(&op->work)) {
      const Allocation& allocation = *allocate->allocation;
      accesses.push_back({allocation.start, allocation.start + allocation.bytes, true});
      m.memory.set_live(*allocate->allocation);
    } else if (auto* free = std::get_if<FreeWork>(&op->work)) {
      const Allocation& allocation = *free->allocation;
      accesses.push_back({allocation.start, allocation.start + allocation.bytes, true});
      run_free(*free);
    } else if (auto* custom = std::get_if<std::shared_ptr<CustomWork>>(&op->work)) {
      (*custom)->run(context);
    }
  } catch (const Fault& fault) {
    failure = fault;
  } catch (const std::exception& exception) {
    failure = Fault{cudaErrorUnknown, name + ": " + exception.what()};
  }
  lock.lock();
  m.memory.recorder = nullptr;
  if (host) {
    --m.host_functions;
  } else {
    m.executing = false;
  }
  if (m.config.race_check) race_end(members, accesses, name);
  if (chosen.unit) {
    chosen.unit->done = true;
    double latest = 0;
    for (const OpPtr& member : members) {
      double start = member->lane->finish;
      for (const OpPtr& dep : member->deps) start = std::max(start, dep->finish);
      latest = std::max(latest, start);
    }
    latest += chosen.unit->nanoseconds();
    for (const OpPtr& member : members) {
      member->finish = std::max(member->finish, latest);
      member->running = false;
      if (failure && m.devices[member->device]->sticky == cudaSuccess)
        raise_sticky(member->device, failure->error, failure->message);
      if (++member->units_done == member->units.size()) complete(member);
    }
  } else {
    if (failure) raise_sticky(op->device, failure->error, failure->message);
    complete(op);
  }
  bury_streams();
  m.changed.notify_all();
  return Step::ran;
}

void report_deadlock(const std::string& what) {
  Machine& m = machine();
  std::string text = "DEADLOCK: " + what +
                     " waits for operations that can not run unless another host thread enqueues something\n";
  for (auto& [id, lane] : m.lanes) {
    const Op& op = *lane->queue.front();
    text += format("  %s on device %d: head is %s", lane->label.c_str(), lane->device, op.name().c_str());
    if (lane->queue.size() > 1) text += format(", %zu more behind it", lane->queue.size() - 1);
    text += "\n";
    if (op.running) text += "    is running now\n";
    for (const OpPtr& dep : op.deps)
      if (!dep->done) text += format("    waits for %s\n", dep->name().c_str());
    for (const auto& unit : op.units)
      if (!unit->done) text += "    " + unit->waiting_for() + "\n";
  }
  for (auto& device : m.devices)
    if (device->sticky != cudaSuccess)
      text += format("  device %d has failed: %s\n", device->index, device->sticky_message.c_str());
  // The same standstill is told in full once.
  static std::string previous;
  const std::string heads = text.substr(text.find('\n'));
  if (heads == previous) text = "DEADLOCK: " + what + " waits too; nothing has moved since the report above";
  previous = heads;
  report(text);
  if (m.config.abort_on_deadlock) std::abort();
}

cudaError_t wait_until(Lock& lock, const std::function<bool()>& done, const std::string& what) {
  Machine& m = machine();
  auto since = Time::now();
  std::uint64_t seen = m.progress;
  bool only_thread = false, counted = false;
  struct Waiter {
    Machine& m;
    explicit Waiter(Machine& machine) : m(machine) { ++m.waiters; }
    ~Waiter() { --m.waiters; }
  } waiter(m);
  while (!done()) {
    const Step result = step(lock);
    if (result == Step::ran) {
      since = Time::now();
      seen = m.progress;
      continue;
    }
    if (result == Step::busy || m.host_functions > (thread_state().in_host_function ? 1 : 0)) {
      m.changed.wait_for(lock, std::chrono::milliseconds(20));
      if (result == Step::busy) since = Time::now();
      if (Time::now() - since < std::chrono::milliseconds(10ull * m.config.deadlock_ms)) continue;
    }
    if (m.progress != seen) {
      seen = m.progress;
      since = Time::now();
      continue;
    }
    if (!counted) {
      only_thread = thread_count() == (m.idle_thread ? 2 : 1) && m.external == 0;
      counted = true;
    }
    const auto waited = Time::now() - since;
    const std::chrono::milliseconds patience(std::uint64_t{m.config.deadlock_ms} * (m.external ? 5 : 1));
    if (only_thread || waited >= patience) {
      report_deadlock(what);
      return cudaErrorLaunchTimeout;
    }
    const auto rest = patience - waited;
    m.changed.wait_for(lock, std::min<Time::duration>(rest, std::chrono::milliseconds(m.external ? 1 : 50)));
  }
  return cudaSuccess;
}

cudaError_t wait_for(Lock& lock, const OpPtr& op, const std::string& what) {
  if (!op) return cudaSuccess;
  const cudaError_t error = wait_until(
      lock, [&] { return op->done; }, what);
  if (error == cudaSuccess) host_saw(op);
  return error;
}

cudaError_t wait_device(Lock& lock, int device, const std::string& what) {
  std::vector<OpPtr> tails;
  for (StreamObject* stream : machine().devices[device]->streams)
    if (stream->lane.last) tails.push_back(stream->lane.last);
  const cudaError_t error = wait_until(
      lock, [&] { return std::all_of(tails.begin(), tails.end(), [](const OpPtr& op) { return op->done; }); },
      what);
  if (error == cudaSuccess)
    for (const OpPtr& op : tails) host_saw(op);
  return error;
}

void poke(Lock& lock) {
  Machine& m = machine();
  const unsigned steps = 1 + m.random() % 3;
  for (unsigned count = 0; count < steps; ++count)
    if (step(lock) != Step::ran) break;
}

// Whether a query finds that nothing has moved for the deadlock time.
bool stalled_query(Lock& lock, const std::string& what) {
  static thread_local std::uint64_t seen = ~0ull;
  static thread_local Time::time_point since;
  Machine& m = machine();
  if (m.progress != seen) {
    seen = m.progress;
    since = Time::now();
    return false;
  }
  if (m.executing || m.host_functions ||
      Time::now() - since <
          std::chrono::milliseconds(std::uint64_t{m.config.deadlock_ms} * (m.external ? 5 : 1))) {
    m.changed.wait_for(lock, std::chrono::microseconds(200));
    return false;
  }
  report_deadlock(what + ", polled repeatedly,");
  since = Time::now();
  return true;
}

void drain_if_eager(Lock& lock) {
  if (machine().config.schedule != Config::Schedule::eager) return;
  while (step(lock) == Step::ran) {
  }
}

cudaError_t submit(Lock& lock, StreamObject& stream, Work work, OpPtr* out, int device) {
  Machine& m = machine();
  const int on = device >= 0 ? device : stream.device;
  if (stream.capture) return capture_work(stream, std::move(work), on);
  Device& owner = *m.devices[stream.device];
  const bool blocking = !(stream.flags & cudaStreamNonBlocking);
  if (stream.legacy) {
    for (const auto& session : m.captures)
      for (StreamObject* other : session->streams)
        if (other->device == stream.device && !(other->flags & cudaStreamNonBlocking)) {
          invalidate(*session, cudaErrorStreamCaptureImplicit,
                     "work on the legacy default stream while a blocking stream is captured");
          return cudaErrorStreamCaptureImplicit;
        }
  }
  OpPtr op = make_op(on, std::move(work));
  if (auto* wait = std::get_if<WaitWork>(&op->work)) {
    if (wait->event && wait->event->record) op->deps.push_back(wait->event->record);
  }
  if (stream.legacy) {
    for (StreamObject* other : owner.streams)
      if (other != &stream && !(other->flags & cudaStreamNonBlocking) && other->lane.last)
        op->deps.push_back(other->lane.last);
  } else if (blocking && owner.legacy->lane.last) {
    op->deps.push_back(owner.legacy->lane.last);
  }
  append(stream.lane, op);
  if (auto* record = std::get_if<RecordWork>(&op->work)) {
    record->event->record = op;
    record->event->capture.reset();
    record->event->capture_nodes.clear();
  }
  if (out) *out = op;
  drain_if_eager(lock);
  return cudaSuccess;
}

bool busy(const StreamObject& stream) { return !stream.lane.queue.empty(); }

}  // namespace vgpu::rt
