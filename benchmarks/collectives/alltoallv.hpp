#pragma once

#include "collectives/collective.hpp"
#include "measure/traffic.hpp"

namespace lockstep::bench {

/// alltoall with parts of unequal sizes: rank r sends what `traffic` says to each rank, in their order, and
/// has what it gets in the order of the senders.
Collective alltoallv(const Traffic& traffic);

}  // namespace lockstep::bench
