#pragma once

#include <string_view>

#include <lockstep/detail/shared_function.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Takes what the library has to say, a line without its end. A callable that can be called as const; copies
/// share it.
using LogSink = detail::SharedFunction<void(std::string_view message)>;

/// Sends the library's warnings to `sink`; an empty one, as in the beginning, is the standard error stream,
/// where each is a line "lockstep: MESSAGE". From any thread: the messages come one at a time, on the thread
/// that has something to say, and none comes to the sink before once this has returned. A sink must not call
/// the library, and what it throws is dropped. A fork of the process that was made during its call writes to
/// the standard error stream.
/// @return the sink before.
LogSink set_log_sink(LogSink sink);

}  // namespace lockstep

#pragma GCC visibility pop
