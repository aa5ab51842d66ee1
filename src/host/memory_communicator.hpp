#pragma once

#include <cstdint>
#include <span>

#include <lockstep/backend/communicator_backend.hpp>

#include "host/collectives/reduce_range.hpp"

namespace lockstep::host {

/// What the communicators of host replicas share: a thread can do a short reduction by itself.
class MemoryCommunicator : public backend::CommunicatorBackend {
 public:
  CommunicationPlan plan(ReduceOp, DType dtype, std::int64_t count, int num_tensors,
                         const backend::Route&) const final {
    const std::int64_t size_bytes = num_tensors * count * static_cast<std::int64_t>(size_of(dtype));
    const bool is_local = path() == CommunicationPath::shared_memory;
    return {
        .path = path(),
        .reason = is_local ? "the replicas' threads share memory" : "the replicas are in several processes",
        .in_rank_order = true,
        .bytes_read = size_bytes,
        .bytes_written = size_bytes};
  }
  bool shares_memory() const final { return true; }
  void reduce_here(ReduceOp op, DType dtype, std::int64_t count, std::span<const void* const> sources,
                   std::span<void* const> destinations) final {
    reduce_range(op, dtype, count, sources, destinations, /*streaming=*/false);
  }

 protected:
  virtual CommunicationPath path() const noexcept { return CommunicationPath::processes; }
};

}  // namespace lockstep::host
