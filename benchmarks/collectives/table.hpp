#pragma once

#include "collectives/collective.hpp"

namespace lockstep::bench {

extern const Collective kAllReduce;

}  // namespace lockstep::bench
