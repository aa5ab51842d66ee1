#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <lockstep/backend/handles.hpp>
#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/device.hpp>
#include <lockstep/memory_stats.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

class GraphBackend;
class Loss;

/// One opened device: memory, streams, events, copies, kernels.
///
/// For a backend author: any thread may call, and no call changes the caller's current device. Objects of
/// this class live until the process ends. `deallocate` and the `destroy_*` calls must work during process
/// exit and never throw.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual const Device& device() const noexcept = 0;
  /// The native library's number of the device, which virtual devices of one GPU share; 0 for a CPU.
  virtual int ordinal() const noexcept { return 0; }
  /// Whether the end of the process has released the device's streams.
  virtual bool is_closed() const noexcept { return false; }

  // Memory. Stream-ordered: the bytes may be used by work enqueued on `stream` after allocate and before
  // deallocate.
  /// Memory aligned to at least 256 bytes, not cleared; size_bytes > 0. If the stream is being captured, the
  /// memory, and whatever is deallocated on the stream, stays for as long as the capture's graph can run.
  /// @throws OutOfMemory
  virtual void* allocate(std::size_t size_bytes, StreamHandle stream) = 0;
  virtual void deallocate(void* data, std::size_t size_bytes, StreamHandle stream) noexcept = 0;
  virtual void* allocate_pinned(std::size_t size_bytes) = 0;
  virtual void deallocate_pinned(void* data, std::size_t size_bytes) noexcept = 0;
  /// Whether the device reads this host memory in stream order, because its pages are locked, by whomever.
  virtual bool is_pinned(const void* /*data*/) { return false; }
  virtual MemoryStats memory_stats() const = 0;
  virtual void trim_memory() = 0;

  // Streams and events.
  virtual StreamHandle create_stream() = 0;
  /// The same for work that others wait for, such as communication: where the hardware can choose, it begins
  /// before that of other streams.
  virtual StreamHandle create_urgent_stream() { return create_stream(); }
  /// Does not wait. `deallocate` may still name the handle, because buffers may outlive the stream they were
  /// allocated on.
  virtual void destroy_stream(StreamHandle stream) noexcept = 0;
  /// @throws DeviceError; PeerLost, CollectiveTimeout  results that are not there: see there. The three waits
  /// below are alike.
  virtual void synchronize(StreamHandle stream) = 0;
  virtual bool is_complete(StreamHandle stream) = 0;
  /// Waits until nothing of the stream runs any more, whether there are results or not; for destructors.
  virtual void finish(StreamHandle stream) noexcept;
  /// Whether work enqueued on the stream now is captured into a graph, which may run later and repeatedly.
  virtual bool is_capturing(StreamHandle /*stream*/) { return false; }
  /// Whether the stream is in a capture that has failed: nothing can be enqueued until the capture is ended.
  virtual bool has_failed_capture(StreamHandle /*stream*/) { return false; }
  /// The program gets the native handle of a stream or an event, and may do with it what the library does not
  /// see: capture work, for example.
  virtual void give_out(StreamHandle /*stream*/) noexcept {}
  virtual void give_out(EventHandle /*event*/) noexcept {}
  virtual EventHandle create_event() = 0;
  virtual void destroy_event(EventHandle event) noexcept = 0;
  virtual void record(EventHandle event, StreamHandle stream) = 0;
  /// Orders later work of `stream` after the event, which may belong to another device of the same backend.
  /// @throws ContextError  the stream is being captured and the event's work was not, and is not done; or the
  /// event belongs to another capture, or to one that has ended.
  virtual void wait(StreamHandle stream, EventHandle event) = 0;
  virtual void synchronize(EventHandle event) = 0;
  virtual bool is_complete(EventHandle event) = 0;
  /// Whether the work before the event is done, whether there are results or not. @throws DeviceError
  virtual bool has_passed(EventHandle event) { return is_complete(event); }
  /// A collective is about to be ended before it is complete, and the streams will go on with what it leaves
  /// in memory. From now on every wait of the host for work of this device throws what the loss says, as
  /// streams hand results to each other, until a communicator is made by a program that knows of the loss.
  /// Any thread. A backend whose calls have finished when they return need do nothing.
  virtual void lose_results(std::shared_ptr<Loss> /*loss*/) {}

  // Copies of contiguous bytes, ordered on a stream of this device.
  /// Copies between two places on this device.
  virtual void copy(void* destination, const void* source, std::size_t size_bytes, StreamHandle stream) = 0;
  /// Copies from ordinary or pinned host memory. Ordinary memory has been read when the call returns.
  virtual void copy_from_host(void* destination, const void* source, std::size_t size_bytes,
                              StreamHandle stream) = 0;
  /// Copies to ordinary or pinned host memory. Ordinary memory has been written when the call returns.
  virtual void copy_to_host(void* destination, const void* source, std::size_t size_bytes,
                            StreamHandle stream) = 0;
  /// Copies from another device of the same backend. The caller has ordered `stream` after the source's work.
  virtual void copy_from_peer(void* destination, const void* source, DeviceBackend& source_device,
                              std::size_t size_bytes, StreamHandle stream) = 0;

  /// Called by a thread of the library's own that will work for this device most of the time.
  virtual void bind_thread() {}

  virtual KernelBackend& kernels() noexcept = 0;
  /// Steps as graphs; null: this backend runs every step anew.
  virtual GraphBackend* graphs() noexcept { return nullptr; }

  /// The device's own stream, made at its first use. Any thread may call.
  StreamHandle default_stream_handle();

 private:
  std::atomic<StreamHandle> default_stream_{};
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
