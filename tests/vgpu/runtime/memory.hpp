// Memory: allocations of devices and of the host, pools, addresses.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "exec/exec.hpp"
#include "runtime/config.hpp"

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

struct Op;
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
  bool out = false;  // a graph that does not free it has been launched, and it is not freed since
  // By the order of the calls; the state is what the device has done.
  bool is_freed() const { return free_queued || (state == State::freed && !out); }
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
  std::uint64_t mapped = 0;  // in large pieces: what allocations can have without a wait
  static constexpr std::uint64_t piece = 32u << 20;
  void map(std::uint64_t bytes) { mapped = (bytes + piece - 1) / piece * piece; }
  void unmap() {
    if (used + cached < mapped) map(used + cached);
  }
  std::size_t max_size = 0;
  int reuse[4] = {0, 1, 1, 1};
  std::map<int, cudaMemAccessFlags> access;
  bool destroyed = false;
  std::vector<std::shared_ptr<Op>> frees;  // queued ones, with VGPU_STRICT=pool-dependencies
};

// Hears of an operation's accesses.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void access(Address begin, std::size_t bytes, bool write, Ordering ordering) = 0;
  virtual void fence(Ordering ordering) = 0;
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
  void* resolve(int device, std::uint64_t address, std::size_t bytes, bool write,
                Ordering ordering = {}) override;
  void fence(Ordering ordering) override {
    if (recorder) recorder->fence(ordering);
  }
  std::string explain(int device, Address address, std::size_t bytes) const;
  std::size_t limit() const { return limit_; }
  std::vector<Allocation*> all();
  std::vector<std::size_t> used;             // per device
  std::vector<std::vector<bool>> peer;       // peer[a][b]: a may access b's memory
  std::atomic<std::uint64_t> num_writes{0};  // by operations
  Recorder* recorder = nullptr;              // race detector's, set while an operation runs
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

}  // namespace vgpu::rt
