#pragma once

#include "collectives/collective.hpp"

namespace lockstep::bench {

extern const Collective kAllReduce;
extern const Collective kReduce;
extern const Collective kBroadcast;
extern const Collective kAllGather;
extern const Collective kReduceScatter;

}  // namespace lockstep::bench
