#pragma once

#include <cstddef>

#include <sys/types.h>

namespace lockstep::simulation {

/// write, to a file.
ssize_t write_file(int descriptor, const void* data, std::size_t size);

}  // namespace lockstep::simulation
