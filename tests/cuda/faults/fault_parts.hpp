#pragma once

#include <span>
#include <string_view>

namespace lockstep::test {

/// One of the program's parts, which begins and ends by itself.
struct FaultPart {
  std::string_view name;
  /// @throws Error  a call has failed. @throws std::logic_error  the fault that a result is wrong, or that
  /// the state after a failure is neither as before nor said to be lost.
  void (*run)();
};

std::span<const FaultPart> fault_parts();

/// What a program does that goes on after a failure: makes a strategy, and reduces.
void reduce_anew();

}  // namespace lockstep::test
