#include "detail/process.hpp"

namespace lockstep::detail {

// No forks here.
std::uint64_t Process::number() noexcept { return 1; }

}  // namespace lockstep::detail
