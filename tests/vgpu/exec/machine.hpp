// The machine that runs decoded PTX: instructions, warps, blocks.
#pragma once

#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/exec.hpp"
#include "exec/ir.hpp"

namespace vgpu::ptx {

struct Warp;
struct Block;
struct Inst;
struct Program;
using Handler = void (*)(Warp&, const Inst&, u32 mask);

constexpr u32 kLanes = 32;
constexpr u32 kFull = 0xffffffff;
constexpr u32 kNone = 0xffffffff;

// What the warp's main loop does with an instruction.
enum class Kind : u8 {
  Plain,        // fn on the active lanes, then the next instruction
  Branch,       // to target
  BranchTable,  // op[0] indexes extra->targets
  Call,         // extra describes it
  Return,
  Exit,
  Barrier,   // wait for the block's other warps
  Yield,     // let other warps and blocks run
  WarpSync,  // fn, once the lanes that the membermask names have converged
  Nop,
};

// An operand is an offset in bytes into the warp's registers, or with this bit into the program's constants.
constexpr u32 kConstant = 0x8000'0000;
// A predicate operand is an index in the warp's predicates, perhaps negated.
constexpr u32 kNegated = 0x8000'0000;
constexpr u32 kTruePredicate = 0;  // predicate 0 is always true

struct Extra {
  std::vector<u32> targets;  // BranchTable
  // Call
  const Function* callee = nullptr;     // null: indirect through op[0]
  std::vector<u32> arguments, results;  // frame offsets in the caller
  std::vector<u32> argument_bytes, result_bytes;
  // Barrier
  enum { Sync, Arrive, Popc, And, Or } barrier = Sync;
  bool has_count = false;
  bool aligned = true;
};

struct Inst {
  Handler fn = nullptr;
  u32 op[6] = {kNone, kNone, kNone, kNone, kNone, kNone};
  u32 guard = kNone;       // predicate operand, kNone when unconditional
  u32 target = kNone;      // Branch
  u32 reconverge = kNone;  // Branch, BranchTable: first instruction of the immediate post-dominator
  u32 source = 0;          // index in Function::body
  s64 imm = 0;
  const Extra* extra = nullptr;
  Kind kind = Kind::Plain;
  u8 defs = 0, uses = 0;  // which op[] are registers written and read
  u8 flags = 0;
  u8 sub = 0;  // meaning depends on the handler
  Space space = Space::Generic;
  Ordering ordering;      // of a memory instruction or a fence
  bool no_share = false;  // results must not lie where operands lay
};
// Flags of memory instructions.
constexpr u8 kAddress32 = 1;      // the address register has 32 bits
constexpr u8 kFrameRelative = 2;  // local memory, relative to the function's frame
constexpr u8 kStrong = 4;         // volatile, relaxed or acquire: may be polling
constexpr u8 kUniform = 8;        // the address is a constant

struct ConstantPatch {
  u32 offset;          // in the pool
  bool wide;           // 64-bit lanes
  std::string symbol;  // empty: the start of dynamic shared memory
  u64 addend;
};

// A decoded function.
struct Program {
  const Function* function = nullptr;
  const Unit* unit = nullptr;
  std::vector<Inst> code;
  std::deque<Extra> extras;
  std::vector<u8> constants;  // broadcast to all lanes
  std::vector<ConstantPatch> patches;
  std::vector<u32> poison;  // (offset, bytes) pairs of registers that may be read before they are written
  u32 register_bytes = 0;
  u32 predicates = 1;
};

// Decodes on first use.
std::unique_ptr<Program> decode(const Unit& unit, const Function& function);
// Every instruction of the function that decode() refuses, as text.
std::vector<std::string> unimplemented(const Unit& unit, const Function& function);

struct LoadedModule final : Module {
  std::shared_ptr<Unit> unit;
  std::unordered_map<std::string_view, KernelInfo> kernels;
  std::vector<std::string> names;
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Program>> programs;  // by function index

  const KernelInfo* kernel(std::string_view name) const override;
  std::vector<std::string> kernel_names() const override { return names; }
  const std::vector<Variable>& variables() const override { return unit->variables; }
  const Program& program(const Function& function) const;
};

// Memory of a thread's registers and the like, aligned for vector instructions.
class Buffer {
 public:
  Buffer() = default;
  u8* data() { return data_.get(); }
  std::size_t size() const { return size_; }
  void grow(std::size_t bytes) {  // keeps the contents
    if (bytes <= size_) return;
    bytes = (bytes + 63) / 64 * 64;
    std::unique_ptr<u8[], Free> fresh(static_cast<u8*>(std::aligned_alloc(64, bytes)));
    if (size_) std::memcpy(fresh.get(), data_.get(), size_);
    data_ = std::move(fresh);
    size_ = bytes;
  }

 private:
  struct Free {
    void operator()(u8* p) const { std::free(p); }
  };
  std::unique_ptr<u8[], Free> data_;
  std::size_t size_ = 0;
};

// One launch.
struct Grid {
  const LoadedModule* module;
  const Launch* launch;
  Memory* memory;
  const Function* kernel;
  std::vector<std::pair<const Program*, const u8*>>
      programs;  // by function index: decoded, constants patched
  std::deque<std::vector<u8>> patched;
  std::vector<u8> parameters;
  u32 shared_bytes = 0, dynamic_shared_at = 0;
  u32 reserved_shared_at =
      0;  // 1024 bytes that the system keeps of shared memory, where the unit asks for them
  u32 lane_rotation = 0;
  u32 workspace[64] = {};  // of the cooperative grid barrier
  u64 progress = 0;        // stores, atomic updates, barriers: something that others may wait for
  u64 clock = 0;           // instructions so far, and what sleeps and looks at the clock add
  u64 started = 0;         // real time, in nanoseconds
  bool race_check = false;
  Counts* counts = nullptr;  // the launch's

  const Program& enter(const Function& function, const u8*& constants);
  u64 symbol(const std::string& name) const;
};

// A path of the warp: lanes that run together from pc until rpc, where the entry below takes over.
struct SimtEntry {
  u32 pc, rpc, mask;
  // At an instruction that waits for other lanes of the warp: parked there, or free to pass it.
  enum State : u8 { Running, Parked, Released } state = Running;
};
struct Frame {
  const Program* program;
  u32 registers, predicates, local;  // where the frame's parts begin
  u32 first_entry;                   // in Warp::stack
  const Inst* call;                  // in the caller
  u32 mask;
};

// Where the lanes of a memory access lie on the host.
struct Access {
  u8* base = nullptr;  // contiguous: lane l is at base + l * size; uniform: all are at base
  bool contiguous = false, uniform = false;
  u8* lane[kLanes];
};

struct Warp {
  // For handlers.
  u8* base[2];  // registers, constants
  u32* predicates;
  Grid* grid = nullptr;
  Block* block = nullptr;
  u32 local_frame = 0;
  u32 index = 0;   // in its block
  u32 alive = 0;   // lanes that have not exited
  u32 active = 0;  // lanes of the current path
  u32 spins = 0;   // polls since the warp was resumed
  u32 yields = 0;  // in a row, because of polling
  u32 waits = 0;   // times in a row that a path gave way to others of the warp
  u32 tid[3][kLanes];

  std::vector<Frame> frames;
  std::vector<SimtEntry> stack;
  Buffer register_file, local_memory;
  std::vector<u32> predicate_file;
  u32 local_stride = 0;

  enum class Stop { Done, Barrier, Yield, Fuel };
  const Inst* at_barrier = nullptr;
  u32 barrier_id = 0, barrier_mask = 0;

  void start(Block& b, u32 warp_index);
  Stop run(u64& fuel);

  template <class T>
  T* reg(u32 op) {
    return reinterpret_cast<T*>(base[0] + op);
  }
  template <class T>
  const T* in(u32 op) const {
    return reinterpret_cast<const T*>(base[op >> 31] + (op & ~kConstant));
  }
  u32 pred(u32 op) const { return op & kNegated ? ~predicates[op & ~kNegated] : predicates[op]; }
  void set_pred(u32 op, u32 mask, u32 value) {
    if (op != kNone) predicates[op] = (predicates[op] & ~mask) | (value & mask);
  }

  [[noreturn]] void fault(const Inst& in, int lane, const std::string& what) const;
  [[noreturn]] void address_fault(const Inst& in, int lane, const std::string& what, u64 address) const;

  // The addresses of the lanes.
  void addresses(const Inst& in, u32 op, u64* out) const;
  void access(const Inst& in, const u64* address, u32 mask, u32 bytes, bool write, Access& out);
  // Counts an access where the launch is counted; access() does so itself.
  void count(const Inst& in, const u64* address, u32 mask, u32 bytes, bool write) const {
    if (grid->counts && (in.space == Space::Global || in.space == Space::Generic))
      grid->counts->add_access(address, mask, bytes, write);
  }
  // One lane's address on the host; faults when it may not be accessed.
  u8* host(const Inst& in, int lane, Space space, u64 address, u32 bytes, bool write);
  std::string c_string(const Inst& in, int lane, u64 address);

 private:
  void push_frame(const Function& callee, const Inst* call, u32 mask);
  void pop_frame();
  void use_frame();
  void reserve_local(u32 bytes);
  // Runs a function of the host for the lanes; false when `callee` is no such function.
  bool built_in(const Inst& in, const Function& callee, u32 mask);
  void lanes_gone(u32 mask, std::size_t first_entry);
  void diverge(const Inst& in, u32 taken, u32 target, u32 fall_through);
  // For paths of one warp that wait for one another: takes the current path out of its parent's
  // reconvergence, and puts it below the other paths, so that they run first. False when there is none.
  bool give_way();
  bool join_parked();
  bool all_at_warp_barriers(u32 lanes);
  bool await_lanes();
  u8* frame_pointer(int lane, u32 offset) {
    return local_memory.data() + u64{local_stride} * static_cast<u32>(lane) + local_frame + offset;
  }
};

struct BarrierState {
  u32 arrived = 0;   // threads, in whole warps
  u32 expected = 0;  // 0: every live warp of the block
  u32 waiting = 0;   // warps that wait, by index
  u32 popc = 0;
  bool all = true, any = false;
};

struct Block {
  Grid* grid = nullptr;
  Dim3 id;
  u64 linear = 0;
  std::vector<u8> shared_store;
  u8* shared = nullptr;
  u32 shared_bytes = 0;  // the kernel's; what the system reserves lies behind a gap
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<u32> order;
  BarrierState barriers[16];
  u32 epoch = 1;  // race detector: counts the block's barriers
  struct Touch {
    u32 write_epoch = 0, read_epoch = 0;
    u16 writer = 0, reader = 0;  // warps; 0xffff: several readers
  };
  std::vector<Touch> touches;  // by byte

  void start(Grid& g, u64 linear_id);
  enum class Stop { Done, Yield, Fuel };
  Stop run(u64& fuel);
  // With VGPU_RACECHECK=1: faults when two warps touch a byte of shared memory between barriers, one of them
  // writing.
  void check_race(Warp& w, const Inst& in, const u64* address, u32 mask, u32 bytes, bool write);

 private:
  void arrive(Warp& w);
  bool release(u32 id);
  u32 live_warps() const;
};

std::string demangled(const std::string& name);
int format_printf(Warp& w, const Inst& in, int lane, u64 format, u64 arguments);

}  // namespace vgpu::ptx
