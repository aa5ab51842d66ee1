// The scheduler: operations run lazily, one at a time, when some host thread waits; which of the ready stream
// heads runs next is drawn from a seeded generator. A kernel that polls for what another one writes pauses,
// and goes on when its turn is drawn again.
#include <algorithm>
#include <cfenv>
#include <chrono>
#include <thread>

#include <dirent.h>
#include <unistd.h>

#include "runtime/run.hpp"
#include "runtime/state.hpp"

namespace vgpu::rt {
namespace {

using Time = std::chrono::steady_clock;

class Context : public RunContext {
 public:
  Context(std::string name, Counts* counts) : name_(std::move(name)), counts_(counts) {}
  void* access(int device, const void* address, std::size_t bytes, bool write) override {
    if (counts_ && machine().memory.in_device_range(to_address(address)))
      counts_->add_span(to_address(address), bytes, write);
    return machine().memory.translate(device, to_address(address), bytes, write, name_);
  }
  [[noreturn]] void fail(cudaError_t error, const std::string& message) override {
    throw Fault{error, name_ + ": " + message};
  }

 private:
  std::string name_;
  Counts* counts_;
};

/// A device computes in its own way, whatever the rounding and the treatment of subnormals of the host thread
/// whose call runs an operation.
class DeviceFloatState {
 public:
  DeviceFloatState() {
    std::fegetenv(&outer_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DeviceFloatState() { std::fesetenv(&outer_); }
  DeviceFloatState(const DeviceFloatState&) = delete;
  DeviceFloatState& operator=(const DeviceFloatState&) = delete;

 private:
  std::fenv_t outer_;
};

// Under what name an operation is counted; no name: it is not.
std::pair<Counted, std::string> counted_as(const Op& op) {
  if (const auto* kernel = std::get_if<KernelWork>(&op.work)) return {Counted::kernel, kernel->kernel->name};
  if (const auto* copy = std::get_if<CopyWork>(&op.work)) return {Counted::copy, copy->direction};
  if (std::holds_alternative<SetWork>(op.work)) return {Counted::set, "memset"};
  if (const auto* custom = std::get_if<std::shared_ptr<CustomWork>>(&op.work))
    return {Counted::library, (*custom)->is_communication() ? "NCCL" : "cuBLAS"};
  return {};
}

bool dependencies_done(const Op& op) {
  return std::all_of(op.deps.begin(), op.deps.end(), [](const OpPtr& dep) { return dep->done; });
}

struct Candidate {
  OpPtr op;
  std::shared_ptr<Unit> unit;
  std::shared_ptr<Running> paused = nullptr;
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
  // A library's operation is a kernel on hardware, however many steps it has here.
  const bool has_run = !op->skipped && op->poison == cudaSuccess;
  if (op->counted && has_run && std::holds_alternative<std::shared_ptr<CustomWork>>(op->work))
    counters().add(*op->counted, Counted::library, counted_as(*op).second, Counts{.launches = 1});
  double start = lane.finish;
  for (const OpPtr& dep : op->deps) start = std::max(start, dep->finish);
  op->finish = std::max(op->finish, start + cost(*op));
  lane.finish = op->finish;
  m.virtual_now = std::max(m.virtual_now, op->finish);
  op->deps.clear();
  op->units.clear();
  op->work = EmptyWork{};
  op->keeps.reset();
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

void initialise_lane(Lane& lane, int device, std::string label) {
  Machine& m = machine();
  lane.id = m.next_lane++;
  lane.device = device;
  lane.label = std::move(label);
  lane.priority = static_cast<double>(mix(m.seed * 1000003 + lane.id) >> 11);
  lane.slot = m.race_slots++;
  lane.finish = m.virtual_now;
}

OpPtr make_op(int device, Work work) {
  auto op = std::make_shared<Op>();
  op->device = device;
  op->work = std::move(work);
  return op;
}

void append(Lane& lane, const OpPtr& op) {
  Machine& m = machine();
  start_idle_thread();
  op->id = m.next_op++;
  op->lane = &lane;
  op->lane_slot = lane.slot;
  op->counted = counters().open();
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

namespace {

// In a kernel: lets others run. Whether they have moved.
bool pause(Running& running, bool is_stuck) {
  Machine& m = machine();
  std::uint64_t seen = 0;
  {
    Lock lock(m.mutex);
    // Where nobody polls, kernels run one after another.
    if (!is_stuck && (m.paused.empty() || m.random() % 4 != 0)) return false;
    seen = m.moves;
    running.is_stuck = is_stuck;
  }
  running.fiber->pause();
  Lock lock(m.mutex);
  return m.moves != seen;
}

void perform(Running& running) {
  Machine& m = machine();
  const OpPtr& op = running.op;
  Counts* const counts = op->counted ? &running.counted : nullptr;
  Context context(running.name, counts);
  try {
    if (running.unit) {
      if (cudaError_t error = injected("collective"); error != cudaSuccess)
        throw Fault{error, "injected failure of " + running.name};
      running.unit->run(context);
    } else if (auto* kernel = std::get_if<KernelWork>(&op->work)) {
      run_kernel(*op, *kernel, counts, [&running](bool is_stuck) { return pause(running, is_stuck); });
    } else if (auto* copy = std::get_if<CopyWork>(&op->work)) {
      run_copy(*op, *copy, counts);
    } else if (auto* set = std::get_if<SetWork>(&op->work)) {
      run_set(*op, *set, counts);
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
      if (running.accesses)
        running.accesses->add(allocation.start, allocation.start + allocation.bytes, true);
      m.memory.set_live(*allocate->allocation);
    } else if (auto* free = std::get_if<FreeWork>(&op->work)) {
      const Allocation& allocation = *free->allocation;
      if (running.accesses)
        running.accesses->add(allocation.start, allocation.start + allocation.bytes, true);
      run_free(*free);
    } else if (auto* custom = std::get_if<std::shared_ptr<CustomWork>>(&op->work)) {
      (*custom)->run(context);
    }
  } catch (const Fault& fault) {
    running.failure = fault;
  } catch (const std::exception& exception) {
    running.failure = Fault{cudaErrorUnknown, running.name + ": " + exception.what()};
  }
}

void finish(Running& running) {
  Machine& m = machine();
  const OpPtr& op = running.op;
  if (op->counted)
    if (const auto [what, as] = counted_as(*op); !as.empty())
      counters().add(*op->counted, what, as, running.counted);
  if (running.accesses) running.accesses->end();
  if (running.unit) {
    running.unit->done = true;
    double latest = 0;
    for (const OpPtr& member : running.members) {
      double start = member->lane->finish;
      for (const OpPtr& dep : member->deps) start = std::max(start, dep->finish);
      latest = std::max(latest, start);
    }
    latest += running.unit->nanoseconds();
    for (const OpPtr& member : running.members) {
      member->finish = std::max(member->finish, latest);
      member->running = false;
      if (running.failure && m.devices[member->device]->sticky == cudaSuccess)
        raise_sticky(member->device, running.failure->error, running.failure->message);
      if (++member->units_done == member->units.size()) complete(member);
    }
  } else {
    if (running.failure) raise_sticky(op->device, running.failure->error, running.failure->message);
    complete(op);
  }
  bury_streams();
}

// Runs an operation, or goes on with it, until it ends or pauses. Whether anything has moved.
bool go_on(Lock& lock, const std::shared_ptr<Running>& running) {
  Machine& m = machine();
  const bool host = std::holds_alternative<HostWork>(running->op->work);
  if (host) {
    ++m.host_functions;
  } else {
    m.executing = true;
    m.memory.recorder = running->accesses ? &*running->accesses : nullptr;
  }
  running->is_stuck = false;
  const std::uint64_t seen = m.memory.num_writes;
  lock.unlock();
  bool ended = true;
  {
    const DeviceFloatState floats;
    if (running->fiber)
      ended = running->fiber->resume();
    else
      perform(*running);
  }
  lock.lock();
  if (host) {
    --m.host_functions;
  } else {
    m.memory.recorder = nullptr;
    m.executing = false;
  }
  const bool moved = ended || !running->is_stuck || m.memory.num_writes != seen;
  if (moved) ++m.moves;
  if (ended) {
    finish(*running);
  } else {
    running->looked = running->is_stuck ? m.moves : m.moves - 1;
    m.paused.push_back(running);
  }
  m.changed.notify_all();
  return moved;
}

}  // namespace

Step step(Lock& lock) {
  Machine& m = machine();
  std::vector<Candidate> ready = candidates();
  if (m.executing) {
    // Another thread is running an operation; only host functions may run beside it.
    std::erase_if(ready, [](const Candidate& c) { return !std::holds_alternative<HostWork>(c.op->work); });
    if (ready.empty()) return Step::busy;
  } else {
    const bool all_wait =
        ready.empty() && std::all_of(m.paused.begin(), m.paused.end(),
                                     [&](const auto& one) { return one->looked == m.moves; });
    // Where all poll in vain, the host may have written what they look at.
    for (const auto& paused : m.paused)
      if (all_wait || paused->looked != m.moves) ready.push_back({paused->op, nullptr, paused});
  }
  if (ready.empty()) return Step::none;
  const Candidate chosen = ready[choose(ready)];
  if (chosen.paused) {
    std::erase(m.paused, chosen.paused);
    return go_on(lock, chosen.paused) ? Step::ran : Step::none;
  }
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

  const auto running = std::make_shared<Running>();
  running->op = op;
  running->unit = chosen.unit;
  running->members = std::move(members);
  running->name = chosen.unit ? chosen.unit->describe() : op->name();
  for (const OpPtr& member : running->members) member->running = true;
  if (m.config.trace)
    log_op(format("run #%llu %s", static_cast<unsigned long long>(m.executed), running->name.c_str()));
  if (m.config.race_check) {
    for (const OpPtr& member : running->members) race_begin(*member);
    running->accesses.emplace(running->members, running->name);
  }
  if (std::holds_alternative<KernelWork>(op->work))
    running->fiber = std::make_unique<Fiber>([run = running.get()] { perform(*run); });
  return go_on(lock, running) ? Step::ran : Step::none;
}

cudaError_t wait_until(Lock& lock, const std::function<bool()>& done, const std::string& what) {
  Machine& m = machine();
  auto since = Time::now();
  std::uint64_t seen = m.progress;
  thread_state().waited = thread_state().may_wait = true;
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
    if (!m.paused.empty() && result == Step::none) {
      // The executor ends a kernel that polls in vain for too long.
      m.changed.wait_for(lock, std::chrono::microseconds(100));
      since = Time::now();
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

namespace {

std::vector<OpPtr> last_operations(int device) {
  std::vector<OpPtr> tails;
  for (StreamObject* stream : machine().devices[device]->streams)
    if (stream->lane.last) tails.push_back(stream->lane.last);
  return tails;
}

cudaError_t wait_for_all(Lock& lock, const std::vector<OpPtr>& ops, const std::string& what) {
  return wait_until(
      lock, [&] { return std::all_of(ops.begin(), ops.end(), [](const OpPtr& op) { return op->done; }); },
      what);
}

}  // namespace

cudaError_t wait_device(Lock& lock, int device, const std::string& what) {
  const std::vector<OpPtr> tails = last_operations(device);
  const cudaError_t error = wait_for_all(lock, tails, what);
  if (error == cudaSuccess)
    for (const OpPtr& op : tails) host_saw(op);
  return error;
}

cudaError_t stall(Lock& lock, int device, const std::string& what) {
  return wait_for_all(lock, last_operations(device), what);
}

cudaError_t wait_to_map(Lock& lock, int device, const std::string& what) {
  thread_state().may_wait = true;
  if (!machine().config.strict.allocation_waits) return cudaSuccess;
  for (const auto& each : machine().devices)
    if (device < 0 ? each->context : each->index == device)
      if (cudaError_t error = stall(lock, each->index, what); error != cudaSuccess) return error;
  return cudaSuccess;
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
  if (m.executing || m.host_functions || !m.paused.empty() ||
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
