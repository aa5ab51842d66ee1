#pragma once

namespace lockstep::detail {

/// A TCP port that no socket of this host listens on now. @throws Error  there is none.
int find_free_port();

}  // namespace lockstep::detail
