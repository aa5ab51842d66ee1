#pragma once

#include <lockstep/dtype.hpp>

#include "dlpack/abi.hpp"

namespace lockstep::dlpack {

[[nodiscard]] DLDataType to_element_type(DType dtype);
/// @throws Unsupported  no DType has such elements.
[[nodiscard]] DType to_dtype(const DLDataType& type);

}  // namespace lockstep::dlpack
