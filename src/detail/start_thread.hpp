#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

/// Starts a thread that calls `f`. `purpose`, such as "run: the thread of replica 2", begins the message of a
/// failure.
/// @throws Error  the system has no thread or no memory for its stack.
template <class F>
std::thread start_thread(std::string_view purpose, F&& f) {
  try {
    return std::thread(std::forward<F>(f));
  } catch (const std::system_error& error) {
    raise<Error>({__FILE__, __LINE__, __func__},
                 concat(purpose, " cannot be started: ", error.code().message(),
                        ". Allow the process more threads or memory, or use fewer of them."),
                 {.code = error.code().value()});
  }
}

}  // namespace lockstep::detail
