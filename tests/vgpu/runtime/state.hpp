// The whole state of the virtual machine: devices, memory, streams, graphs. One lock guards it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "runtime/work.hpp"

namespace vgpu::rt {

struct CaptureSession;

struct StreamObject {
  Lane lane;
  std::uint64_t id = 0;
  int device = 0;
  unsigned flags = 0;  // cudaStreamNonBlocking
  int priority = 0;
  bool legacy = false, per_thread = false, destroyed = false;
  std::shared_ptr<CaptureSession> capture;
  std::vector<Node*> capture_tail;
  cudaStreamAttrValue sync_policy{}, access_policy{};
  std::string name() const;
};

struct EventObject {
  std::uint64_t id = 0;
  int device = 0;
  unsigned flags = 0;
  OpPtr record;  // the latest
  bool destroyed = false;
  std::shared_ptr<CaptureSession> capture;  // last recorded in a capture
  std::vector<Node*> capture_nodes;
};

// ---------------------------------------------------------------- graphs

struct Node {
  std::uint64_t id = 0;
  GraphData* graph = nullptr;
  int device = 0;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  Work work;
  std::vector<Node*> before;  // dependencies
  cudaKernelNodeParams kernel_params{};
  std::vector<std::vector<char>> arguments;
  std::vector<void*> argument_pointers;
  cudaMemcpy3DParms copy_params{};
  cudaMemsetParams set_params{};
  const Node* origin = nullptr;  // in the graph that this one was cloned from
  bool enabled = true;
};

struct UserObject {
  void* pointer;
  cudaHostFn_t destroy;
  unsigned references;
};

// References to user objects, given back with it.
class UserReferences {
 public:
  UserReferences() = default;
  UserReferences(const UserReferences& other) { add(other); }
  UserReferences& operator=(const UserReferences&) = delete;
  ~UserReferences();
  // Takes over `count` references.
  void take(UserObject* object, unsigned count) { held_.push_back({object, count}); }
  // Makes more of those that another has.
  void add(const UserReferences& other);
  // Gives `count` back; false where there are not as many.
  bool release(UserObject* object, unsigned count);

 private:
  std::vector<std::pair<UserObject*, unsigned>> held_;
};

struct GraphData {
  std::uint64_t id = 0;
  std::vector<std::unique_ptr<Node>> nodes;
  bool destroyed = false;
  UserReferences user_objects;
};

struct ExecNode {
  Work work;
  int device = 0;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::vector<std::size_t> before;
  const Node* origin = nullptr;
  std::uint64_t origin_id = 0;
  std::unique_ptr<Lane> lane;
  bool enabled = true;
};

struct GraphExec {
  std::uint64_t id = 0;
  std::uint64_t graph_id = 0;
  unsigned long long flags = 0;
  std::vector<ExecNode> nodes;  // topological order
  OpPtr last_end;
  bool destroyed = false;
  std::shared_ptr<UserReferences> user_objects = std::make_shared<UserReferences>();  // also the launches'
};

struct CaptureSession {
  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::shared_ptr<GraphData> graph;
  StreamObject* origin = nullptr;
  std::set<StreamObject*> streams;
  std::uint64_t thread = 0;
  cudaError_t invalid = cudaSuccess;
  std::string why;
  bool to_existing_graph = false;
  bool ended = false;
};

// ---------------------------------------------------------------- devices and the machine

struct Device {
  int index = 0;
  bool context = false;       // whether its primary context exists
  bool context_used = false;  // by the runtime, which keeps it
  int context_retained = 0;   // by cuDevicePrimaryCtxRetain
  cudaError_t sticky = cudaSuccess;
  std::string sticky_message;
  StreamObject* legacy = nullptr;
  std::map<std::uint64_t, StreamObject*> per_thread;
  std::set<StreamObject*> streams;  // of the program, destroyed ones too while they have work
  Pool* default_pool = nullptr;
  Pool* current_pool = nullptr;
  std::size_t limits[8]{};
  unsigned flags = 0;
};

struct ThreadState {
  std::uint64_t number = 0;
  int device = 0;    // the current one
  int selected = 0;  // by cudaSetDevice
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  bool in_host_function = false;
  int context = -1;            // the device whose context is current, -1: none yet
  bool waited = false;         // the current call has waited for a device
  bool may_wait = false;       // the same, or hardware may wait there
  const char* call = nullptr;  // the current one of a library's that has not waited
  struct Configuration {
    dim3 grid, block;
    std::size_t shared;
    cudaStream_t stream;
  };
  std::vector<Configuration> configurations;
};
ThreadState& thread_state();

struct Machine {
  Config config;
  std::mutex mutex;
  std::condition_variable changed;
  MemoryMap memory;
  std::vector<std::unique_ptr<Device>> devices;
  std::unordered_map<const void*, StreamObject*> streams;                // live handles
  std::unordered_map<const void*, std::shared_ptr<EventObject>> events;  // live handles
  std::unordered_map<const void*, std::shared_ptr<GraphData>> graphs;
  std::unordered_map<const void*, std::unique_ptr<GraphExec>> execs;
  std::vector<void*> free_streams, free_events;  // handles of destroyed ones, with VGPU_STRICT=handle-reuse
  std::unordered_set<const void*> pools;
  std::set<std::shared_ptr<CaptureSession>> captures;  // ongoing
  std::map<std::uint64_t, Lane*> lanes;                // with work, by lane id
  std::uint64_t next_id = 1, next_op = 1, next_lane = 1, next_graph_id = 1;
  std::atomic<std::uint64_t> seed{1};  // the configuration's, or vgpu_seed's
  std::mt19937_64 random;
  bool executing = false;      // some thread runs an operation that excludes others
  int host_functions = 0;      // running host functions
  bool is_loading = false;     // a kernel, lazily
  std::uint64_t progress = 0;  // counts enqueued and completed operations
  std::uint64_t executed = 0;
  std::vector<std::shared_ptr<Running>> paused;  // kernels
  std::uint64_t moves = 0;                       // what kernels that poll may wait for
  std::vector<FailRule> rules;
  std::map<const void*, std::pair<std::string, std::string>> objects;  // for the leak report
  std::size_t race_slots = 1;                                          // slot 0 is the host
  Clock host_clock;
  std::uint64_t races = 0;
  std::atomic<bool> need_notify{false};
  double virtual_now = 0;
  int external = 0;  // communicators that reach into other processes
  int waiters = 0;   // host threads in wait_until
  bool idle_thread = false, stopping = false;
};
Machine& machine();
// Why no device can be used: there is none, the driver is too old, this process is a fork of one that has
// used them, ...
cudaError_t unusable();
inline bool valid_device(int device) {
  return device >= 0 && device < static_cast<int>(machine().devices.size());
}

// ---------------------------------------------------------------- scheduler.cpp

StreamObject* resolve_stream(cudaStream_t stream, int device);  // nullptr when invalid
// What the null stream is in code built with --default-stream per-thread.
inline cudaStream_t per_thread_default(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }
OpPtr make_op(int device, Work work);
// Appends to the lane; `stream` decides implicit ordering with the legacy default stream.
void append(Lane& lane, const OpPtr& op);
// Enqueues on a stream, or adds a node to the graph being captured.
cudaError_t submit(Lock& lock, StreamObject& stream, Work work, OpPtr* out = nullptr, int device = -1);
// Lets work go on, as hardware would, when no host thread waits in a CUDA call for it (see VGPU_IDLE_MS).
void start_idle_thread();
void stop_idle_thread();
// Runs one operation if one is ready.
enum class Step { ran, none, busy };
Step step(Lock& lock);
cudaError_t wait_until(Lock& lock, const std::function<bool()>& done, const std::string& what);
cudaError_t wait_for(Lock& lock, const OpPtr& op, const std::string& what);
cudaError_t wait_device(Lock& lock, int device, const std::string& what);
// The same where a program must not count on the wait: it orders nothing for the race detector.
cudaError_t stall(Lock& lock, int device, const std::string& what);
// With VGPU_STRICT=allocation-waits: what maps or unmaps memory waits for the work of its device or, for
// memory of the host (device -1), of all devices that have a context.
cudaError_t wait_to_map(Lock& lock, int device, const std::string& what);
void poke(Lock& lock);
void drain_if_eager(Lock& lock);
bool stalled_query(Lock& lock, const std::string& what);
void report_deadlock(const std::string& what);
void report(const std::string& text);
void log_op(const std::string& line);
void raise_sticky(int device, cudaError_t error, const std::string& message);
bool busy(const StreamObject& stream);
void initialise_lane(Lane& lane, int device, std::string label);

std::string leak_report(Machine& m);  // leaks.cpp

// race.cpp
void race_begin(Op& op);
void race_forget(Address begin, Address end);
void host_saw(const OpPtr& op);

// graph.cpp
Node* add_node(GraphData& graph, cudaGraphNodeType type, int device, Work work, std::vector<Node*> before);
cudaError_t capture_work(StreamObject& stream, Work work, int device);
cudaGraphNodeType node_type(const Work& work);
void invalidate(CaptureSession& session, cudaError_t error, const std::string& why);
cudaError_t check_unsafe(const char* api);
void launch_graph(Lock& lock, GraphExec& exec, StreamObject& stream);
// Names the graphs, executable graphs and captures that have work of which `is_held` says so; empty: none
// has.
std::string graphs_with(const std::function<bool(const CustomWork&)>& is_held);

// module.cpp
cudaError_t load_module(ModuleEntry& entry);
KernelHandle* find_kernel(const void* function);
cudaError_t ready_kernel(KernelHandle& kernel);
Address variable_address(ModuleEntry& entry, int device, std::string_view name);
VariableHandle* find_variable(const void* symbol);

// ---------------------------------------------------------------- API calls

struct Call {
  const char* name;
  std::string info;
  bool quiet = false;
};

enum CallFlags : unsigned {
  plain = 0,
  no_sticky = 1,  // answers even after the device failed
  unsafe = 2,     // prohibited while a stream is being captured
  no_record = 4,  // does not set the thread's last error
};

bool enter_api(const char* name, unsigned flags, Lock& lock, cudaError_t& error);
cudaError_t leave_api(Call& call, unsigned flags, Lock& lock, cudaError_t error);
bool trace_on();
// Tells who watches calls (vgpu_on_call) of one; before it: which error it is to end with, or 0. Without the
// lock.
int watch(const char* name, bool is_over);

template <class Body>
cudaError_t api(const char* name, unsigned flags, Body&& body) {
  Lock lock;
  cudaError_t error = cudaSuccess;
  Call call{name, {}, false};
  if (enter_api(name, flags, lock, error)) {
    try {
      error = body(lock, call);
    } catch (const Fault& fault) {
      error = fault.error;
      report(std::string(name) + ": " + fault.message);
    }
  }
  return leave_api(call, flags, lock, error);
}

cudaError_t injected(const char* name);

// context.cpp
// Makes the device's context the thread's current one, as cudaSetDevice and the first call that needs one do.
// `why` is for the trace.
// Fails where the device's compute mode has no context for this process.
cudaError_t use_context(int device, const char* why);
// A function of the driver's API that concerns contexts, or nullptr.
void* driver_function(const std::string& name);
cudaError_t error_by_name(const std::string& name, cudaError_t fallback);

}  // namespace vgpu::rt
