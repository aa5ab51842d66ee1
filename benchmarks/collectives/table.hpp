#pragma once

#include "collectives/collective.hpp"

namespace lockstep::bench {

extern const Collective kAllReduce;
extern const Collective kReduce;
extern const Collective kBroadcast;
extern const Collective kAllGather;
extern const Collective kReduceScatter;
extern const Collective kGather;
extern const Collective kScatter;
extern const Collective kAllToAll;
extern const Collective kAllToAllV;
extern const Collective kSendRecv;

}  // namespace lockstep::bench
