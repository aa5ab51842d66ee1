// Kernels and other work, the operations that carry it, and the lanes where they queue.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <cuda_runtime_api.h>

#include "runtime/counters.hpp"
#include "runtime/fiber.hpp"
#include "runtime/memory.hpp"
#include "runtime/runtime.hpp"

namespace vgpu::rt {

// What happened before: the race detector's vector clocks.
struct Clock {
  std::vector<std::uint32_t> at;  // by lane
  void join(const Clock& other);
  std::uint32_t operator[](std::size_t lane) const { return lane < at.size() ? at[lane] : 0; }
  void set(std::size_t lane, std::uint32_t value);
};

struct Access {
  Address begin = 0, end = 0;
  bool write = false;
  Ordering::Scope scope = Ordering::none;
};

struct KernelHandle;

struct ModuleEntry {
  std::string_view ptx;
  std::string problem;  // why there is no PTX
  std::shared_ptr<Module> module;
  std::string load_error;
  int ptx_version = 0;  // ten times .target's number's major.minor: 75
  int lowest_ptx = 0;   // of all that the fat binary holds
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
  std::set<int> loaded;  // devices that have it
};

struct VariableHandle {
  ModuleEntry* module = nullptr;
  std::string name;
  std::size_t bytes = 0;
  bool constant = false;
  void** managed_pointer = nullptr;
};

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
  std::shared_ptr<void> keeps;                    // until it is done
  std::shared_ptr<const Counters::Open> counted;  // the ranges it is in; null: it is not counted
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

// What an operation touches, compared with what others have touched. A kernel's are compared whenever it
// meets others: acquires, releases and fences.
class Accesses : public Recorder {
 public:
  // `ops` have begun; a library's operation has several.
  Accesses(std::vector<OpPtr> ops, const std::string& name);
  void add(Address begin, Address end, bool write, Ordering::Scope scope = Ordering::none);
  void access(Address begin, std::size_t bytes, bool write, Ordering ordering) override;
  void fence(Ordering ordering) override;
  // The operations have ended.
  void end();

 private:
  void hear(Address begin, Address end, Ordering ordering);
  void publish(Address begin, Address end, Ordering ordering);
  void acquire();
  std::shared_ptr<const Clock> release();

  std::vector<OpPtr> ops_;
  std::shared_ptr<const std::string> name_;
  std::vector<Access> list_;
  Clock heard_;                          // not acquired yet
  std::shared_ptr<const Clock> fenced_;  // what relaxed stores publish since the last fence
};

// An operation that runs. A kernel may have paused, for others to run.
struct Running {
  OpPtr op;
  std::shared_ptr<Unit> unit;
  std::vector<OpPtr> members;
  std::string name;
  Counts counted;
  std::optional<Accesses> accesses;
  std::optional<Fault> failure;
  std::unique_ptr<Fiber> fiber;  // of a kernel
  bool is_stuck = false;         // it polls in vain
  std::uint64_t looked = 0;      // Machine::moves when it did
};

}  // namespace vgpu::rt
