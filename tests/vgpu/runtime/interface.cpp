// What libnccl and libcublas use of the runtime.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/state.hpp"

namespace vgpu::rt {

namespace {

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
    library_waits();
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
    thread_state().call = api;
    counters().add_call(thread_state().number, api, {.calls = 1});
    if (const int error = watch(api, false)) return error;
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
  void call_is_over(const char* api) override { watch(api, true); }
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
  bool strict_current_device() override { return machine().config.strict.current_device; }
  cudaError_t wait_to_map(int device, const std::string& what) override {
    library_waits();
    Lock lock(machine().mutex);
    return rt::wait_to_map(lock, device, what);
  }
  std::string graphs_with(const std::function<bool(const CustomWork&)>& is_held) override {
    Lock lock(machine().mutex);
    return rt::graphs_with(is_held);
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

 private:
  // The thread's call of a library waits: counted once.
  static void library_waits() {
    if (const char* const call = std::exchange(thread_state().call, nullptr))
      counters().add_call(thread_state().number, call, {.waits = 1});
  }
};

}  // namespace

}  // namespace vgpu::rt

using namespace vgpu::rt;

extern "C" {

vgpu::rt::Runtime* vgpu_runtime() {
  static RuntimeImpl implementation;
  machine();
  return &implementation;
}
}
