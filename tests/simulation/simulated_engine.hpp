#pragma once

namespace lockstep::simulation {

/// Makes the engine "simulated" known: channels over TCP connections between each two processes, by the same
/// calls that other programs make.
void register_simulated_engine();

}  // namespace lockstep::simulation
