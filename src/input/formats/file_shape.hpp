#pragma once

#include <cstdint>
#include <span>

#include <lockstep/dtype.hpp>
#include <lockstep/shape.hpp>

#include "input/formats/byte_source.hpp"

namespace lockstep::detail {

/// The shape of an array whose elements come next in the source. Called before memory is allocated for them.
/// @param extents  none is negative.
/// @throws FileFault  the extents are no valid shape, or have more elements than can be left.
Shape checked_shape(const ByteSource& source, std::span<const std::int64_t> extents, DType dtype);

}  // namespace lockstep::detail
