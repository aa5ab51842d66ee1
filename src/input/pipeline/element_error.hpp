#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/tensor.hpp>

#include "input/pipeline/stopping.hpp"

namespace lockstep::detail {

/// Throws the exception that is being handled again, as one whose message begins with what was done and with
/// the element's index: of the same class where that is one of lockstep's, but OutOfRange, which is the end
/// of an iterator; else an Error. The original is nested in it.
/// @param file  the element's, which the message names unless the original's does; empty: none.
[[noreturn]] void raise_at_element(std::string_view what, std::int64_t index, std::string_view file = {});

/// fn() of the user's, for one element, unless the pass is stopped.
template <class F>
decltype(auto) call_for_element(std::string_view what, std::int64_t index, F&& fn) {
  try {
    check_stop();
    return fn();
  } catch (const Stopped&) {
    throw;
  } catch (...) {
    raise_at_element(what, index);
  }
}

}  // namespace lockstep::detail
