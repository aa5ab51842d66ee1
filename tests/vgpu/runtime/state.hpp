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

#include "exec/exec.hpp"
#include "runtime/runtime.hpp"

namespace vgpu::rt {

using Address = std::uint64_t;
using Lock = std::unique_lock<std::mutex>;

inline Address to_address(const void* pointer) { return reinterpret_cast<Address>(pointer); }
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// Ends the running operation; becomes the device's sticky error.
struct Fault {
  cudaError_t error;
  std::string message;
};

// ---------------------------------------------------------------- configuration

struct Config {
  int devices = 4;
  int cc = 90;
  int sms = 132;
  std::size_t memory = std::size_t{2048} << 20;
  enum class Link { none, pcie, nvlink } link = Link::nvlink;  // between any two devices
  bool peer_access() const { return link != Link::none; }
  std::uint64_t seed = 1;
  enum class Schedule { random, eager, fifo } schedule = Schedule::random;
  unsigned deadlock_ms = 2000;
  unsigned idle_ms = 100;
  bool abort_on_deadlock = false;
  bool leak_check = false;
  bool race_check = false;
  bool lazy_memcpy = false;
  FILE* trace = nullptr;
};

// ---------------------------------------------------------------- vector clocks (race detector)

struct Clock {
  std::vector<std::uint32_t> at;  // by lane
  void join(const Clock& other);
  std::uint32_t operator[](std::size_t lane) const { return lane < at.size() ? at[lane] : 0; }
  void set(std::size_t lane, std::uint32_t value);
};

struct Access {
  Address begin = 0, end = 0;
  bool write = false;
};

// ---------------------------------------------------------------- memory

struct Pool;

struct Allocation {
  enum class Kind { device, pinned, registered, managed, symbol } kind = Kind::device;
  enum class State { pending, live, freed } state = State::live;
  std::uint64_t id = 0;
  Address start = 0;
  std::size_t bytes = 0;
  std::size_t charged = 0;  // against the device's limit
  int device = 0;
  char* host = nullptr;  // where the bytes are
  bool large = false;    // page-mapped separately
  bool free_queued = false;
  bool from_graph = false;
  unsigned flags = 0;
  Pool* pool = nullptr;
  std::string origin;  // the call that made it
  std::string freed_by;
  bool on_device() const { return kind == Kind::device || kind == Kind::symbol; }
};

struct Pool {
  int device = 0;
  bool is_default = false;
  std::uint64_t release_threshold = 0;
  std::uint64_t used = 0, used_high = 0, cached = 0, reserved_high = 0;
  std::size_t max_size = 0;
  int reuse[4] = {0, 1, 1, 1};
  std::map<int, cudaMemAccessFlags> access;
  bool destroyed = false;
};

class MemoryMap : public Memory {
 public:
  void initialise(const Config& config);
  // Returns nullptr when the address space or the limit is exhausted.
  Allocation* allocate_device(int device, std::size_t bytes, Allocation::Kind kind, Allocation::State state,
                              const char* origin);
  Allocation* allocate_host(std::size_t bytes, Allocation::Kind kind, int device, const char* origin);
  Allocation* register_host(void* pointer, std::size_t bytes, int device);
  void set_live(Allocation& allocation);
  void release(Allocation& allocation, const std::string& by);  // frees, poisons, quarantines
  Allocation* find(Address address);                    // the allocation (in any state) that covers address
  Allocation* overlapping(Address begin, Address end);  // some allocation not freed that overlaps
  bool in_device_range(Address address) const {
    return address >= base_ && address < base_ + span_ * devices_;
  }
  // For copies and other non-kernel work: throws Fault.
  char* translate(int device, Address address, std::size_t bytes, bool write, const std::string& who);
  // exec's view.
  void* resolve(int device, std::uint64_t address, std::size_t bytes, bool write) override;
  std::string explain(int device, Address address, std::size_t bytes) const;
  std::size_t limit() const { return limit_; }
  std::vector<Allocation*> all();
  std::vector<std::size_t> used;                             // per device
  std::vector<std::vector<bool>> peer;                       // peer[a][b]: a may access b's memory
  std::function<void(Address, std::size_t, bool)> recorder;  // race detector, set while an operation runs
  std::atomic<std::uint64_t> epoch{1};

 private:
  Allocation* find_locked(Address address) const;
  bool reachable(int device, const Allocation& allocation) const;
  void fill(Allocation& allocation, int byte);
  mutable std::shared_mutex mutex_;
  std::map<Address, Allocation*> table_;
  Address base_ = 0;
  std::size_t span_ = 0;
  int devices_ = 0;
  std::ptrdiff_t shadow_ = 0;  // program address + shadow_ = accessible address
  std::vector<std::size_t> next_;
  std::vector<std::deque<Allocation*>> quarantine_;
  std::size_t limit_ = 0;
  int poison_file_ = -1;
  std::uint64_t next_id_ = 1;
};

// ---------------------------------------------------------------- modules

struct KernelHandle;

struct ModuleEntry {
  std::string_view ptx;
  std::string problem;  // why there is no PTX
  std::shared_ptr<Module> module;
  std::string load_error;
  int ptx_version = 0;  // ten times .target's number's major.minor: 75
  std::vector<KernelHandle*> kernels;
  std::map<std::pair<int, std::string>, Allocation*> variables;  // per device
  std::map<std::string, Allocation*> managed;
  bool unloaded = false;
};

struct KernelHandle {
  ModuleEntry* module = nullptr;
  std::string name;
  std::string pretty;
  const void* host = nullptr;
  const KernelInfo* info = nullptr;
  int max_dynamic_shared = 48 << 10;
  int carveout = -1;
};

struct VariableHandle {
  ModuleEntry* module = nullptr;
  std::string name;
  std::size_t bytes = 0;
  bool constant = false;
  void** managed_pointer = nullptr;
};

// ---------------------------------------------------------------- work

struct Node;
struct GraphData;

struct KernelWork {
  KernelHandle* kernel = nullptr;
  Dim3 grid, block;
  std::size_t shared = 0;
  bool cooperative = false;
  std::vector<std::byte> parameters;
};

struct Endpoint {
  enum class Kind { device, pinned, raw, snapshot } kind = Kind::device;
  Address address = 0;
  std::size_t pitch = 0, slice = 0;  // bytes between rows, between slices
  int device = -1;
};

struct CopyWork {
  Endpoint to, from;
  std::size_t width = 0, height = 1, depth = 1;
  std::shared_ptr<std::vector<char>> snapshot;
  const char* direction = "";
  std::size_t bytes() const { return width * height * depth; }
};

struct SetWork {
  Address address = 0;
  std::size_t pitch = 0, slice = 0, width = 0, height = 1, depth = 1;  // bytes
  unsigned value = 0, element = 1;
  std::size_t bytes() const { return width * height * depth; }
};

struct HostWork {
  cudaHostFn_t function = nullptr;
  cudaStreamCallback_t callback = nullptr;
  cudaStream_t stream = nullptr;
  void* data = nullptr;
};

struct EventObject;
struct RecordWork {
  std::shared_ptr<EventObject> event;
};
struct WaitWork {
  std::shared_ptr<EventObject> event;
};  // deps hold what it waits for
struct AllocateWork {
  Allocation* allocation = nullptr;
};
struct FreeWork {
  Allocation* allocation = nullptr;
};
struct EmptyWork {
  const char* label = "empty";
};
struct ChildWork {
  std::shared_ptr<GraphData> graph;
};
using Work = std::variant<EmptyWork, KernelWork, CopyWork, SetWork, HostWork, RecordWork, WaitWork,
                          AllocateWork, FreeWork, ChildWork, std::shared_ptr<CustomWork>>;

std::string describe(const Work& work);

struct Lane;

struct Op {
  std::uint64_t id = 0;
  int device = 0;
  Lane* lane = nullptr;
  Work work;
  std::vector<std::shared_ptr<Op>> deps;
  std::vector<std::shared_ptr<Unit>> units;
  std::size_t units_done = 0;
  bool at_head = false;
  bool running = false;
  bool done = false;
  bool skipped = false;  // dropped because the device had failed
  cudaError_t poison = cudaSuccess;
  std::string poison_message;
  double finish = 0;  // virtual nanoseconds
  Clock clock;        // what happens before its end, including itself
  std::size_t lane_slot = 0;
  std::uint32_t lane_time = 0;
  std::string name() const;
};
using OpPtr = std::shared_ptr<Op>;

// A FIFO of operations: a stream, or an internal one for a graph's node.
struct Lane {
  std::uint64_t id = 0;
  int device = 0;
  std::deque<OpPtr> queue;
  OpPtr last;  // last enqueued (kept while not done, and after for its clock)
  bool active = false;
  double priority = 0;  // for the random schedule
  double finish = 0;
  std::size_t slot = 0;  // race detector's
  std::uint32_t time = 0;
  Clock clock;
  std::string label;
};

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

struct GraphData {
  std::uint64_t id = 0;
  std::vector<std::unique_ptr<Node>> nodes;
  bool destroyed = false;
  std::vector<std::pair<struct UserObject*, unsigned>> user_objects;
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
};

struct UserObject {
  void* pointer;
  cudaHostFn_t destroy;
  unsigned references;
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

struct FailRule {
  std::string name;
  std::uint64_t at = 0;
  bool onwards = false;
  std::string error;
  std::uint64_t seen = 0;
};

struct ThreadState {
  std::uint64_t number = 0;
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  bool in_host_function = false;
  int locked = 0;
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
  std::unordered_set<const void*> pools;
  std::set<std::shared_ptr<CaptureSession>> captures;  // ongoing
  std::map<std::uint64_t, Lane*> lanes;                // with work, by lane id
  std::uint64_t next_id = 1, next_op = 1, next_lane = 1, next_graph_id = 1;
  std::mt19937_64 random;
  bool executing = false;      // some thread runs an operation that excludes others
  int host_functions = 0;      // running host functions
  std::uint64_t progress = 0;  // counts enqueued and completed operations
  std::uint64_t executed = 0;
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

// ---------------------------------------------------------------- scheduler.cpp

StreamObject* resolve_stream(cudaStream_t stream, int device);  // nullptr when invalid
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
void poke(Lock& lock);
void drain_if_eager(Lock& lock);
bool stalled_query(Lock& lock, const std::string& what);
void report_deadlock(const std::string& what);
void report(const std::string& text);
void log_op(const std::string& line);
void raise_sticky(int device, cudaError_t error, const std::string& message);
bool busy(const StreamObject& stream);
void initialise_lane(Lane& lane, int device, std::string label);

// race.cpp
void race_begin(Op& op);
void race_end(const std::vector<OpPtr>& ops, std::vector<Access>& accesses, const std::string& name);
void race_forget(Address begin, Address end);
void host_saw(const OpPtr& op);

// graph.cpp
Node* add_node(GraphData& graph, cudaGraphNodeType type, int device, Work work, std::vector<Node*> before);
cudaError_t capture_work(StreamObject& stream, Work work, int device);
cudaGraphNodeType node_type(const Work& work);
void invalidate(CaptureSession& session, cudaError_t error, const std::string& why);
cudaError_t check_unsafe(const char* api);
void launch_graph(Lock& lock, GraphExec& exec, StreamObject& stream);

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
cudaError_t error_by_name(const std::string& name, cudaError_t fallback);

}  // namespace vgpu::rt
