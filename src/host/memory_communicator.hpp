#pragma once

#include <cstdint>
#include <span>

#include <lockstep/backend/communicator_backend.hpp>

#include "host/collectives/reduce_range.hpp"

namespace lockstep::host {

/// What the communicators of host replicas share: a thread can do a short reduction by itself.
class MemoryCommunicator : public backend::CommunicatorBackend {
 public:
  bool shares_memory() const final { return true; }
  void reduce_here(ReduceOp op, DType dtype, std::int64_t count, std::span<const void* const> sources,
                   std::span<void* const> destinations) final {
    reduce_range(op, dtype, count, sources, destinations, /*streaming=*/false);
  }
};

}  // namespace lockstep::host
