#pragma once

#include <string>

#include "simulation/plan.hpp"
#include "simulation/system/network.hpp"
#include "simulation/system/system.hpp"

namespace lockstep::simulation {

/// Starts the plan's workers, brings its faults, starts workers again, and checks that all comes to its end
/// as it should.
/// @return counts: "kill 1 pause 2 ...".
std::string run_scenario(const Plan& plan, System& system, Network& network);

}  // namespace lockstep::simulation
