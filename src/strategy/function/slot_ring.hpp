#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <lockstep/backend/graph_backend.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// What the host hands to each launch of a graph without a call of the driver: a ring of slots in page-locked
/// memory, of which each launch takes the next one into a block of device memory. Its memory lives as long as
/// the graph.
class SlotRing {
 public:
  /// Launches that may be on their way.
  static constexpr std::uint64_t kNumSlots = 64;

  SlotRing() = default;
  /// In the capture of `stream`: enqueues the taking. @param slot_bytes  a multiple of 8, above 0.
  SlotRing(std::size_t slot_bytes, StreamRef stream);

  /// The slot of a launch; the launch kNumSlots before it must have ended. Launches are counted from 0.
  std::byte* slot(std::uint64_t launch) const;
  std::byte* block() const { return static_cast<std::byte*>(block_.view().data); }
  /// In the capture: enqueues the report that a launch has ended.
  void enqueue_report(StreamRef stream) const;
  /// When the capture has ended: the next launch is number 0. Waits for the stream.
  void reset(StreamRef stream);
  /// The number of launches that have ended.
  std::uint64_t num_ended() const;

 private:
  std::uint64_t* reported() const;
  std::uint64_t* position() const { return static_cast<std::uint64_t*>(position_.view().data); }

  std::size_t slot_bytes_ = 0;
  std::shared_ptr<const PinnedBuffer> slots_;  // owners: this, and the graph; the report follows the slots
  Tensor block_, position_;
};

}  // namespace lockstep::detail
