#pragma once

#include "collectives/collective.hpp"
#include "measure/traffic.hpp"

namespace lockstep::bench {

/// alltoall with parts of unequal sizes: rank r sends as much as `traffic` says to each rank, in rank order,
/// and receives the parts in the order of the senders.
Collective alltoallv(const Traffic& traffic);

}  // namespace lockstep::bench
