#pragma once

namespace lockstep::simulation {

/// The calling process's connections leave, as at its exit, and are closed.
void leave_connections();

}  // namespace lockstep::simulation
