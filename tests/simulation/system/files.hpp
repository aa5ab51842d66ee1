#pragma once

#include <cstddef>

#include <sys/types.h>

namespace lockstep::simulation {

/// Where a word of memory that several processes have mapped is the same for all; else the address.
const void* shared_place(const void* address);

/// write, to a file.
ssize_t write_file(int descriptor, const void* data, std::size_t size);

}  // namespace lockstep::simulation
