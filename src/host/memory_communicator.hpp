#pragma once

#include <cstdint>
#include <span>

#include <lockstep/backend/communicator_backend.hpp>

#include "host/collectives/reduce_range.hpp"

namespace lockstep::host {

/// What the communicators of host replicas share: a thread can do a short reduction by itself.
class MemoryCommunicator : public backend::CommunicatorBackend {
 public:
  CommunicationPlan plan(ReduceOp, std::span<const backend::Segment> batch,
                         const backend::Route&) const final {
    std::int64_t size_bytes = 0;
    for (const backend::Segment& segment : batch) size_bytes += bytes_of(segment);
    const bool is_local = path() == CommunicationPath::shared_memory;
    return {
        .num_packs = backend::num_dtypes(batch),
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
