#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <lockstep/backend/handles.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

class GraphBackend;

/// An executable graph of one piece of hardware, or of several that joined its capture. Its destruction does
/// not wait: launches that are under way go on.
class Graph {
 public:
  virtual ~Graph() = default;
  /// Enqueues all its work as one operation. A launch runs after the one before, whatever their streams.
  /// @throws DeviceError
  virtual void launch(StreamHandle stream) = 0;
  /// Before its destruction: memory that the capture took on further hardware is freed after the work of
  /// `stream`, which is of that hardware, and follows the last launch.
  virtual void free_after(GraphBackend& hardware, StreamHandle stream) noexcept = 0;
};

/// One copy of a list in device memory. None is made where the places are the same, or there are no bytes.
struct ListedCopy {
  void* destination = nullptr;
  const void* source = nullptr;
  std::int64_t size_bytes = 0;
};

/// Captures steps of one device as graphs, and has the kernels by which a launch gets what changes from
/// launch to launch.
///
/// For a backend author: what a graph needs is captured with it, so that a launch is one call of the driver.
/// The kernels are only called on streams that are captured.
class GraphBackend {
 public:
  virtual ~GraphBackend() = default;

  /// The number of the hardware. Devices of one number are captured together, into one graph, and so may be
  /// those of several: a stream of another device joins the capture by an event, and must be joined again
  /// before the end.
  virtual int hardware() const noexcept = 0;
  /// Loads the kernels below, which a capture cannot. To be called before a capture that a stream of this
  /// hardware joins; begin_capture does so itself. @throws DeviceError
  virtual void load() = 0;

  /// Begins the capture of a stream. The same thread ends it; work of other threads on streams that joined it
  /// is captured, too. @throws DeviceError
  virtual void begin_capture(StreamHandle stream) = 0;
  /// Ends it, also when it throws. The device memory that the capture allocated or dropped stays for as long
  /// as the graph, and its launches. @throws DeviceError  the capture is broken.
  virtual std::unique_ptr<Graph> end_capture(StreamHandle stream) = 0;
  /// Ends it, and drops what was captured.
  virtual void drop_capture(StreamHandle stream) noexcept = 0;
  /// Keeps an object alive for as long as the graph of the stream's capture, and its launches. Its destructor
  /// must not call the driver. @throws DeviceError
  virtual void keep(StreamHandle stream, std::shared_ptr<const void> object) = 0;

  /// block := slots[position % num_slots]; then position += 1. @param slots  page-locked host memory, of
  /// num_slots times slot_bytes, a multiple of 8.
  virtual void take_slot(void* block, const void* slots, std::size_t slot_bytes, std::int64_t num_slots,
                         std::uint64_t* position, StreamHandle stream) = 0;
  /// Makes the copies of a list in device memory, which do not overlap.
  /// @param largest_bytes  of one of them, about.
  virtual void copy_listed(const ListedCopy* list, std::int64_t count, std::int64_t largest_bytes,
                           StreamHandle stream) = 0;
  /// Writes the position to page-locked host memory, for the host to read without a call.
  virtual void report(std::uint64_t* reported, const std::uint64_t* position, StreamHandle stream) = 0;
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
