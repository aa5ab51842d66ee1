#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <lockstep/collectives/options.hpp>
#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/tensor.hpp>

#include "strategy/runtime/replica_groups.hpp"

namespace lockstep::detail {

/// Local replica i's part in a gather over all replicas, each on its own thread: every value concatenated
/// along `axis`, in the order of the replicas, on the replica's device and its current stream.
/// @param structure  of the nest whose leaves these are, as text.
/// @throws CollectiveMismatch  another axis or structure. @throws InvalidArgument  as check_gather.
RecycledVector<Tensor> gather_over(ReplicaGroup& group, int i, std::span<const Tensor> values,
                                   std::int64_t axis, std::string_view structure,
                                   const CommunicationOptions& options);

}  // namespace lockstep::detail
