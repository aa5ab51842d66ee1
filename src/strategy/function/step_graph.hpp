#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/backend/graph_backend.hpp>
#include <lockstep/event.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "strategy/function/last_launch.hpp"
#include "strategy/function/slot_ring.hpp"

namespace lockstep::detail {

/// The graph of a step, or of its part, for replicas and the devices that they work on together: one GPU, its
/// virtual devices, or the GPUs of a model that is split. Each launch copies the arguments to the graph's own
/// memory, unless it reads them where they are, and the results from there, and takes the numbers that change
/// from step to step, all by what the host has written to the launch's slots.
class StepGraph {
 public:
  /// The bytes for numbers.
  static constexpr std::size_t kNumbersBytes = 1024;

  /// @param replicas  local indices, the first of which is the root: its thread captures and launches.
  /// @param devices  each once; the first one's streams are the root's. @param last  of the strategy's
  /// launches there.
  StepGraph(std::vector<int> replicas, std::vector<backend::DeviceBackend*> devices,
            std::shared_ptr<LastLaunch> last);

  /// Its memory is freed after the last launch.
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  int root() const noexcept { return replicas_.front(); }
  bool has_device(const Device& device) const noexcept;

  /// Begins the capture, on streams of the graph's own, which must be current in the captured step.
  /// @param inputs  of its replicas, in order, on its devices. @param in_place  they are read where they are.
  /// @pre on the root's thread
  void begin(std::span<const Tensor> inputs, bool in_place);
  /// One of each device.
  const std::vector<Stream>& streams() const noexcept { return streams_; }
  const std::vector<int>& replicas() const noexcept { return replicas_; }
  /// What it reads as inputs: its own memory, or theirs.
  const std::vector<Tensor>& own_inputs() const noexcept { return own_inputs_; }
  /// Where kernels of a device read the numbers.
  std::byte* numbers_on(const Device& device) const;
  /// Ends the capture. @param results  of its devices, contiguous. @pre on the root's thread
  void end(std::span<const Tensor> results);
  /// Ends a capture that is under way, and drops it. @pre on the root's thread
  void drop() noexcept;

  /// Writes what the next launch needs, on any thread, whose current streams it takes. Waits while too many
  /// launches are on their way. @throws ContextError  one of the streams is being captured.
  void prepare(std::span<const Tensor> inputs, std::span<const std::byte> numbers,
               std::span<const Tensor> results);
  /// @pre on the root's thread, after prepare
  void launch();
  std::uint64_t num_launches() const noexcept { return num_launches_; }

 private:
  /// What is on one piece of hardware.
  struct Part {
    std::vector<std::size_t> devices;          // the first one's stream works for the part
    std::vector<std::size_t> inputs, results;  // that each launch copies
    std::vector<const void*> own_results;
    SlotRing entry, exit;
  };

  std::size_t index_of(const Device& device) const noexcept;
  std::size_t part_of(const Device& device) const noexcept;
  const Stream& stream_of(const Part& part) const { return streams_[part.devices.front()]; }
  backend::GraphBackend& graphs_of(const Part& part) const;

  const std::vector<int> replicas_;
  const std::vector<backend::DeviceBackend*> devices_;
  std::vector<Stream> streams_;  // of devices_, to capture
  std::vector<Event> ends_;      // of devices_, to join them with the root
  std::vector<Part> parts_;      // that of the root's streams first
  std::vector<Tensor> own_inputs_;
  bool is_in_place_ = false;
  std::unique_ptr<backend::Graph> graph_;
  const std::shared_ptr<LastLaunch> last_;  // owners: the strategy, and its graphs
  std::vector<StreamRef> current_;          // of devices_, in the next launch
  std::optional<StreamRef> launched_on_;    // the root's, in the last launch
  std::uint64_t num_launches_ = 0;
};

}  // namespace lockstep::detail
