#pragma once

#include <string_view>

#include <lockstep/detail/shared_function.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Receives the library's messages, each a line without its end. Copies share the callable, which must be
/// callable as const.
using LogSink = detail::SharedFunction<void(std::string_view message)>;

/// Sends the library's warnings to `sink`. An empty sink, the initial state, is the standard error stream,
/// which gets lines "lockstep: MESSAGE". Any thread may call. Messages come one at a time, on the thread that
/// reports; once this returns the previous sink gets no more. A sink must not call the library, and its
/// exceptions are dropped. If the process forks during a call of the sink, the child logs to the standard
/// error stream.
/// @return the previous sink.
LogSink set_log_sink(LogSink sink);

}  // namespace lockstep

#pragma GCC visibility pop
