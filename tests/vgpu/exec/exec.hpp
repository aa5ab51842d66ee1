// The PTX executor: parses the PTX text that nvcc embeds in a fat binary and runs kernels of it on the CPU.
//
// It knows nothing of the CUDA runtime API. The runtime (../runtime) owns memory, streams and devices,
// and calls execute() once per kernel launch, from one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "exec/counts.hpp"

namespace vgpu {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

// How an access, or a fence, takes part in the order between threads.
struct Ordering {
  enum Scope : std::uint8_t { none, device, system } scope = none;  // whom it concerns; none: a plain access
  bool acquires = false, releases = false;
  bool is_update = false;  // an atomic one, which reads and writes
};

// What a kernel may touch in the global (and generic) address space. Implemented by the runtime. Addresses
// have 0 in their top byte: the others name shared, local and parameter memory.
class Memory {
 public:
  virtual ~Memory() = default;
  // The host pointer through which a kernel on `device` may access [address, address + bytes),
  // or nullptr when no live allocation covers the whole range or the device may not reach it.
  virtual void* resolve(int device, std::uint64_t address, std::size_t bytes, bool write,
                        Ordering ordering = {}) = 0;
  // A fence of the kernel's that runs.
  virtual void fence(Ordering) {}
};

// A place in a variable's initial bytes that holds the address of another variable. (Addresses of functions
// need none: they are fixed numbers that `initial` already holds.)
struct Relocation {
  std::size_t offset = 0;  // in Variable::initial
  std::size_t bytes = 8;   // how many bytes to store there
  std::string symbol;      // Variable::name of the other variable
  std::int64_t addend = 0;
  unsigned shift = 0;  // store (address + addend) >> shift
};

// A module-scope .global or .const variable; the runtime gives each device its own copy.
struct Variable {
  std::string name;
  std::size_t bytes = 0;
  std::size_t alignment = 1;
  bool constant = false;
  std::vector<std::byte> initial;  // `bytes` long, zero-filled where the PTX gives no initialiser
  // Additions to the first contract:
  std::vector<Relocation> relocations;  // to apply to each device's copy, see relocate()
  bool managed = false;                 // declared __managed__
  bool external = false;                // .extern: defined by another module
};

// Applies variable.relocations to `copy`, the bytes of one device's copy of the variable (in host memory, or
// staged there before they are copied to the device). `symbol` answers as Launch::symbol does.
void relocate(const Variable& variable, std::byte* copy,
              const std::function<std::uint64_t(std::string_view variable)>& symbol);

struct KernelInfo {
  std::string name;                            // as mangled in the PTX
  std::vector<std::size_t> parameter_offsets;  // of each parameter, in the packed parameter buffer
  std::vector<std::size_t> parameter_sizes;    // bytes of each parameter, in order
  std::size_t parameter_bytes = 0;             // size of the packed parameter buffer
  std::size_t static_shared_bytes = 0;
  std::size_t local_bytes = 0;
  std::uint32_t max_threads_per_block = 1024;  // .maxntid where given
  std::uint32_t registers = 32;                // an estimate, for occupancy answers
};

// Raised for PTX that the executor does not understand: names the line and the instruction.
struct UnsupportedPtx : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Raised when a kernel does what hardware would fault on: names kernel, block, thread, instruction, address.
struct KernelFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Module {
 public:
  // Parses a whole PTX translation unit. Throws UnsupportedPtx on malformed text; an instruction that is
  // not implemented is refused only when a kernel reaches it.
  static std::shared_ptr<Module> load(std::string_view ptx);
  virtual ~Module() = default;
  virtual const KernelInfo* kernel(std::string_view mangled_name) const = 0;  // nullptr when absent
  virtual std::vector<std::string> kernel_names() const = 0;
  virtual const std::vector<Variable>& variables() const = 0;
};

struct Launch {
  int device = 0;
  Dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;  // packed as KernelInfo says
  bool cooperative = false;
  // The device address of a module-scope variable on this device.
  std::function<std::uint64_t(std::string_view variable)> symbol;
  // Properties that special registers answer with.
  std::uint32_t multiprocessors = 132;
  // Orders blocks, warps, the sides of branches and the lanes of an atomic: another seed gives another legal
  // interleaving. 0 is the plain order.
  std::uint64_t seed = 0;
  // Called between blocks, and where all blocks poll in vain (`is_stuck`), for other kernels to run
  // meanwhile; it may return on another thread. Null: the kernel runs alone. Whether others have moved.
  std::function<bool(bool is_stuck)> pause;
  // Where the launch is counted; null: it is not.
  Counts* counts = nullptr;
};

// Runs the whole grid to completion. Throws KernelFault or UnsupportedPtx.
void execute(const Module& module, std::string_view kernel, const Launch& launch, Memory& memory);

}  // namespace vgpu
