#include "cluster/worker_connections.hpp"

#include "detail/immortal.hpp"

namespace lockstep::detail {

// Alone in its file, as the simulation of several processes in one has its own.
WorkerConnections& WorkerConnections::of_process() { return immortal<WorkerConnections>(); }

}  // namespace lockstep::detail
