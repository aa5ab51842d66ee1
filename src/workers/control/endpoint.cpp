#include "workers/control/endpoint.hpp"

#include "detail/concat.hpp"

namespace lockstep::detail::control {

std::string was_silent(std::chrono::milliseconds limit) {
  return concat("it was silent for ", std::chrono::duration<double>(limit).count(), " s");
}

}  // namespace lockstep::detail::control
