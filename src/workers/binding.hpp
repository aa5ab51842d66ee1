#pragma once

#include <string>

namespace lockstep::detail {

/// What to tell the user where the process is bound to fewer cores than it has replicas, although the machine
/// lets it have more: launchers of MPI programs bind so unless told. Empty: all is well, or it cannot be
/// told.
std::string binding_warning(int num_local_replicas);

}  // namespace lockstep::detail
