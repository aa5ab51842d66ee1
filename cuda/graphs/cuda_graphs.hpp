#pragma once

#include <lockstep/backend/graph_backend.hpp>
#include <lockstep/device.hpp>

#include "kernels/launch.hpp"
#include "native.hpp"

namespace lockstep::cuda {

/// Graphs of steps on one GPU, or on one of its virtual devices.
class CudaGraphs final : public backend::GraphBackend {
 public:
  /// @param memory  the GPU's pool, which outlives this.
  CudaGraphs(int ordinal, const Device& device, CudaMemory& memory)
      : ordinal_(ordinal), device_(device), memory_(memory) {}

  int hardware() const noexcept override { return ordinal_; }
  void load() override;
  /// CudaMemory::free_after. @param capture  its number.
  void free_after(unsigned long long capture, backend::StreamHandle stream) noexcept;

  void begin_capture(backend::StreamHandle stream) override;
  std::unique_ptr<backend::Graph> end_capture(backend::StreamHandle stream) override;
  void drop_capture(backend::StreamHandle stream) noexcept override;
  void keep(backend::StreamHandle stream, std::shared_ptr<const void> object) override;

  // kernels/step_graph.cu, load_kernels too
  void take_slot(void* block, const void* slots, std::size_t slot_bytes, std::int64_t num_slots,
                 std::uint64_t* position, backend::StreamHandle stream) override;
  void copy_listed(const backend::ListedCopy* list, std::int64_t count, std::int64_t largest_bytes,
                   backend::StreamHandle stream) override;
  void report(std::uint64_t* reported, const std::uint64_t* position, backend::StreamHandle stream) override;

 private:
  /// A kernel's first launch, which loads it, is not for a capture.
  void load_kernels();
  Place place_on(backend::StreamHandle stream) const { return {ordinal_, device_, native(stream), memory_}; }

  const int ordinal_;
  const Device device_;
  CudaMemory& memory_;
};

}  // namespace lockstep::cuda
