#pragma once

#include <cstdint>
#include <exception>
#include <string_view>

#include <lockstep/error.hpp>
#include <lockstep/input/detail/pass_state.hpp>
#include <lockstep/tensor.hpp>

#include "input/pipeline/stopping.hpp"

namespace lockstep::detail {

/// What is wrong with the calls, and not with an element.
class CallError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// Rethrows the exception that is being handled with a message that begins with the transformation and the
/// element's index. The class stays the same if it is one of lockstep's, except OutOfRange, which would mean
/// the end of an iterator; otherwise it is Error. The original exception is nested.
/// @param file  the element's file, which the message names unless the original's does; empty: none.
[[noreturn]] void raise_at_element(std::string_view what, std::int64_t index, std::string_view file = {});

/// An exception as its class, if it is one of lockstep's, and its message; what is nested in it is lost.
void transfer(PassState& state, std::exception_ptr& error);

/// Calls the user's function for one element, unless the pass is stopped.
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
