#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <lockstep/event.hpp>
#include <lockstep/memory.hpp>

#include "input/rows/part.hpp"
#include "input/rows/recycled_memory.hpp"

/// Transfers elements to the replicas' devices.
namespace lockstep::detail {

/// An element on its way to a device.
struct FetchedElement {
  FlatElement tensors;
  /// Marks the end of the copies; null: they are done. Owners: this, the fetcher.
  std::shared_ptr<const Event> copied;
};

/// Hands the element to the calling thread: its current stream of the device waits for the copy, and the
/// memory is released in the order of that stream.
FlatElement receive(FetchedElement&& element);

/// Transfers parts to one device. Used by one thread at a time.
class Fetcher {
 public:
  virtual ~Fetcher() = default;
  /// @throws InvalidArgument  as leaf_of. @throws OutOfMemory
  virtual FetchedElement fetch(const Part& part) = 0;
};

/// For a CPU: rows are gathered directly into the element's tensors, or are views if they are in the right
/// place already.
class HostFetcher final : public Fetcher {
 public:
  explicit HostFetcher(Device device) : device_(std::move(device)) {}
  FetchedElement fetch(const Part& part) override { return {gather(part, device_), nullptr}; }

 private:
  Device device_;
};

/// For any device: rows are gathered directly into page-locked memory, and copied from there on a stream of
/// the fetcher. The destructor waits for the copies.
class StagedFetcher final : public Fetcher {
 public:
  /// @param num_slots  how many elements may be copied at a time; the host waits for the oldest copy before
  /// it starts one more.
  StagedFetcher(const Device& device, std::size_t num_slots);
  ~StagedFetcher() override;
  FetchedElement fetch(const Part& part) override;

 private:
  struct Slot {
    PinnedBuffer rows;
    std::shared_ptr<const Event> copied;  // marks when `rows` may be written again; null: now
  };

  /// The offsets of the leaves in a slot, and at the end the slot's size.
  static std::vector<std::size_t> offsets(const std::vector<LeafType>& leaves);
  Tensor copy(const LeafType& type, const std::byte* rows, std::size_t leaf);

  Device device_;
  Stream stream_;
  std::size_t max_free_;
  std::array<Slot, 2> slots_;  // one is being gathered into while the other is copied from
  std::size_t next_slot_ = 0;
  std::vector<std::shared_ptr<RecycledMemory>> memory_;  // of each leaf
};

/// @param num_ahead  the number of elements that are fetched before the first of them is received.
std::unique_ptr<Fetcher> make_fetcher(const Device& device, int num_ahead);

}  // namespace lockstep::detail
