#pragma once

#include <string_view>

#include <lockstep/error.hpp>
#include <lockstep/input/iterator_state.hpp>

#include "detail/expects.hpp"
#include "detail/input_file.hpp"

/// The form of an IteratorState: the text "lockstep state 1", the content, and the CRC-32 of both.
namespace lockstep::detail {

/// The call that messages name.
inline constexpr std::string_view kRestoreState = "restore_state";

IteratorState seal(std::string_view content);
/// The content, in the state's memory. @throws FileFault  the state is damaged, or of another version.
std::string_view unseal(const IteratorState& state);

/// Calls fn() and turns faults of a state's bytes into errors. @throws InvalidArgument
template <class F>
decltype(auto) with_state_faults(F&& fn) {
  try {
    return fn();
  } catch (const FileFault& fault) {
    raise<InvalidArgument>({__FILE__, __LINE__, __func__},
                           concat(kRestoreState, ": byte ", fault.position, " of the state: ", fault.reason,
                                  ". Pass a state as save_state gave it, to the same version of lockstep."));
  }
}

}  // namespace lockstep::detail
