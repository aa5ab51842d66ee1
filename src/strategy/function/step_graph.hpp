#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/graph_backend.hpp>
#include <lockstep/event.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "strategy/function/slot_ring.hpp"

namespace lockstep::detail {

/// The graph of a step on one GPU, for its replica or, with virtual devices, its replicas. Each launch copies
/// the arguments to the graph's own memory, unless it reads them where they are, and the results from there,
/// and takes the numbers that change from step to step, all by what the host has written to the launch's
/// slots.
class StepGraph {
 public:
  /// The bytes for numbers.
  static constexpr std::size_t kNumbersBytes = 1024;

  /// @param replicas  local indices, the first of which is the root: its thread captures and launches.
  /// @param devices  of all local replicas; opened.
  StepGraph(std::vector<int> replicas, std::span<backend::DeviceBackend* const> devices);

  /// Its memory is freed after the last launch.
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  int root() const noexcept { return replicas_.front(); }
  bool has_device(const Device& device) const noexcept;

  /// Begins the capture, on streams of the graph's own, which must be current in the captured step.
  /// @param inputs  of its replicas, in order. @param in_place  they are read where they are.
  /// @pre on the root's thread
  void begin(std::span<const Tensor> inputs, bool in_place);
  /// The stream of one of its replicas.
  const Stream& stream(std::size_t k) const { return streams_[k]; }
  const std::vector<int>& replicas() const noexcept { return replicas_; }
  /// What it reads as inputs: its own memory, or theirs.
  const std::vector<Tensor>& own_inputs() const noexcept { return own_inputs_; }
  /// Where kernels read the numbers.
  std::byte* numbers() const { return entry_.block() + num_copied_ * sizeof(backend::ListedCopy); }
  /// Ends the capture. @param results  of its devices, contiguous. @pre on the root's thread
  void end(std::span<const Tensor> results);
  /// Ends a capture that is under way, and drops it. @pre on the root's thread
  void drop() noexcept;

  /// Writes what the next launch needs, on any thread, whose current streams it takes. Waits while too many
  /// launches are on their way.
  void prepare(std::span<const Tensor> inputs, std::span<const std::byte> numbers,
               std::span<const Tensor> results);
  /// @pre on the root's thread, after prepare
  void launch();

 private:
  const std::vector<int> replicas_;
  std::vector<backend::DeviceBackend*> devices_;  // of replicas_
  std::vector<Stream> streams_;                   // of replicas_, to capture
  std::vector<Event> ends_;                       // of replicas_, to join them with the root
  std::vector<Tensor> own_inputs_;
  std::size_t num_copied_ = 0;  // inputs, in each launch: all or none
  std::vector<const void*> own_results_;
  SlotRing entry_, exit_;
  std::unique_ptr<backend::Graph> graph_;
  std::vector<StreamRef> current_;  // of replicas_, in the next launch
  std::uint64_t num_launches_ = 0;
};

}  // namespace lockstep::detail
