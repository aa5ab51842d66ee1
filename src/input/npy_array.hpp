#pragma once

#include <lockstep/tensor.hpp>

#include "input/byte_source.hpp"

namespace lockstep::detail {

/// Reads an array in NumPy's .npy format, as load_npy says, and none of the bytes after it.
/// @throws FileFault
Tensor read_npy(ByteSource& source);

}  // namespace lockstep::detail
