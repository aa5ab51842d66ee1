// The interface between vgpu's libcudart and its other libraries (libnccl, libcublas). Not for programs.
//
// libcudart owns streams, memory and the scheduler; the other libraries hand it work of their own kinds.
// Everything crosses through the virtual class Runtime, obtained from vgpu_runtime().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace vgpu::rt {

struct Op;

// What a piece of work may use while it runs. Every access to memory goes through it: it checks that the
// memory is live and feeds the race detector.
class RunContext {
 public:
  virtual ~RunContext() = default;
  // Host pointer to [address, address + bytes) as seen from `device`; ends the operation with a fault
  // (sticky error on the device) when that memory is not live. `device` -1 is a copy engine, which may reach
  // memory of every device.
  virtual void* access(int device, const void* address, std::size_t bytes, bool write) = 0;
  [[noreturn]] virtual void fail(cudaError_t error, const std::string& message) = 0;
};

// A step that several operations take together: it runs once each of its members is at the head of its stream
// with everything before it done. An operation is complete when all its units have run.
class Unit {
 public:
  virtual ~Unit() = default;
  virtual void run(RunContext& context) = 0;
  virtual std::string describe() const = 0;     // for logs
  virtual std::string waiting_for() const = 0;  // who has and has not arrived, for the deadlock report
  virtual double nanoseconds() const { return 5000; }
  // Asked, with the runtime's lock held, once all members are at their heads: for partners in other
  // processes.
  virtual bool ready() { return true; }
  bool complete() const { return members.size() == expected; }
  std::vector<std::shared_ptr<Op>> members;
  std::size_t expected = 0;
  bool done = false;
};

// Work of a kind that libcudart does not know. Must be reusable: a graph runs it once per launch.
class CustomWork {
 public:
  virtual ~CustomWork() = default;
  virtual std::string describe() const = 0;
  // Called once per execution when the operation takes its place on a stream (at the call, or at the graph's
  // launch), with the runtime's lock held. May add units with Runtime::join.
  virtual void bind(const std::shared_ptr<Op>&) {}
  // Called when bound operation will never run or has run.
  virtual void run(RunContext&) {}
  virtual double nanoseconds() const { return 5000; }
  virtual bool is_communication() const { return false; }
};

struct StreamInfo {
  int device = 0;
  std::uint64_t id = 0;
  bool capturing = false;
};

struct PointerInfo {
  enum class Kind { unregistered, device, pinned, managed, freed } kind = Kind::unregistered;
  int device = 0;             // owner
  std::uintptr_t start = 0;   // of the allocation
  std::size_t bytes = 0;      // of the allocation
  std::size_t available = 0;  // from the pointer to the end of the allocation
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual int device_count() = 0;
  virtual int current_device() = 0;
  virtual cudaError_t sticky(int device) = 0;
  // Resolves the null and special handles for `device`; false for an invalid handle.
  virtual bool stream_info(cudaStream_t stream, int device, StreamInfo& info) = 0;
  virtual PointerInfo pointer(const void* address) = 0;
  // Puts work on a stream (or into the graph that the stream is being captured to).
  virtual cudaError_t enqueue(cudaStream_t stream, int device, std::shared_ptr<CustomWork> work) = 0;
  // Makes `unit` one of the operation's steps. Only from CustomWork::bind.
  virtual void join(const std::shared_ptr<Op>& op, const std::shared_ptr<Unit>& unit) = 0;
  // Marks a unit as never runnable; its operations end with `error` once they are at their heads.
  virtual void poison(const std::shared_ptr<Unit>& unit, cudaError_t error, const std::string& message) = 0;
  // Turns an operation that has not run into one that does nothing (an aborted communicator).
  virtual void cancel(const std::shared_ptr<Op>& op) = 0;
  // Makes `later` wait for everything now on `earlier` (both on any device).
  virtual cudaError_t order(cudaStream_t earlier, int earlier_device, cudaStream_t later,
                            int later_device) = 0;
  // Runs queued operations until done() holds, which is evaluated with the lock held. Fails with
  // cudaErrorLaunchTimeout after a deadlock report.
  virtual cudaError_t wait(const std::function<bool()>& done, const std::string& what) = 0;
  // Lets the scheduler run a few operations, as a query would.
  virtual void poke() = 0;
  // Copies that do not go through a stream (host-side reads of a scalar); false when the memory isn't live.
  virtual bool peek(void* host, const void* address, std::size_t bytes) = 0;
  // Fault injection: the error value for this call, or 0. `names` maps an error name to its value.
  virtual int inject(const char* api, const std::function<int(const std::string&)>& value_of,
                     int fallback) = 0;
  virtual void call_is_over(const char* api) = 0;  // after inject()
  virtual void trace(const std::string& line) = 0;
  virtual bool tracing() = 0;
  virtual void report(const std::string& text) = 0;  // a loud, multi-line message on stderr
  // Objects for the leak report.
  virtual void object_created(const char* kind, const void* object, const std::string& detail) = 0;
  virtual void object_destroyed(const char* kind, const void* object) = 0;
  // VGPU_STRICT: after an error NCCL leaves another device current.
  virtual bool strict_current_device() = 0;
  // VGPU_STRICT: memory is mapped or unmapped when the device has done its work; before a call that does so.
  virtual cudaError_t wait_to_map(int device, const std::string& what) = 0;
  // Names the graphs, executable graphs and captures that have work of which `is_held` says so; empty: none
  // has.
  virtual std::string graphs_with(const std::function<bool(const CustomWork&)>& is_held) = 0;
  virtual unsigned deadlock_ms() = 0;
  // Counts what depends on other processes: waits then look around often and are patient. With the lock held.
  virtual void external(int change) = 0;
  // The runtime's lock; recursive use is not allowed. bind() and done() are called with it held.
  virtual void lock() = 0;
  virtual void unlock() = 0;
  virtual void notify() = 0;                  // something changed that a waiting thread may be waiting for
  virtual std::uint64_t thread_number() = 0;  // of the calling thread
  // Called after device ops of a NCCL operation drop: number of operations not yet complete that carry this
  // tag.
  virtual bool finished(const std::shared_ptr<Op>& op) = 0;
};

}  // namespace vgpu::rt

extern "C" vgpu::rt::Runtime* vgpu_runtime();
