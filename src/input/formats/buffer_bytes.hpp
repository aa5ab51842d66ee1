#pragma once

#include <cstddef>

namespace lockstep::detail {

/// The size of a buffer that files of any size go through. It is small in fuzzers' builds, so that their
/// small inputs go beyond it.
constexpr std::size_t buffer_bytes([[maybe_unused]] std::size_t usual) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  return 100;
#else
  return usual;
#endif
}

}  // namespace lockstep::detail
