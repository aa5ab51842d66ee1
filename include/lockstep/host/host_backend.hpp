#pragma once

#include <memory>

#include <lockstep/backend/backend.hpp>

#pragma GCC visibility push(default)

namespace lockstep::host {

/// The CPU backend: devices CPU:0 to CPU:4095 in one process, all in host memory. Work is done by the
/// calling thread before a call returns, so streams are always complete; collectives run on the threads that
/// call them, in shared memory. Always registered. num_devices() is 1, or what `LOCKSTEP_HOST_DEVICES` or
/// set_virtual_devices("CPU:0", n) said.
[[nodiscard]] std::unique_ptr<backend::Backend> make_backend();

}  // namespace lockstep::host

#pragma GCC visibility pop
