#include "detail/warn.hpp"

#include <cstdio>

namespace lockstep::detail {

void warn(std::string_view message) noexcept {
  std::fprintf(stderr, "lockstep: %.*s\n", static_cast<int>(message.size()), message.data());
}

}  // namespace lockstep::detail
