#pragma once

#include <memory>

#include <lockstep/backend/backend.hpp>

#pragma GCC visibility push(default)

namespace lockstep::host {

/// The CPU backend: devices CPU:0 to CPU:4095 of one process, all in host memory. The calling thread does the
/// work before a call returns, so streams are always complete. Collectives run on the threads that call them,
/// in shared memory. The backend is always registered. num_devices() is 1, or the number that
/// `LOCKSTEP_HOST_DEVICES` or set_virtual_devices("CPU:0", n) set.
[[nodiscard]] std::unique_ptr<backend::Backend> make_backend();

}  // namespace lockstep::host

#pragma GCC visibility pop
