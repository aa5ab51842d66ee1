#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <lockstep/tensor_view.hpp>

namespace lockstep::detail {

/// Checks that parts[r][k] over all r can be concatenated along `axis`.
/// @throws InvalidArgument  a part is a scalar, the axis is out of range, or ranks or other extents differ.
/// @throws CollectiveMismatch  dtypes or counts differ.
void check_gather(std::span<const std::span<const TensorView>> parts, std::int64_t axis,
                  std::string_view what);

}  // namespace lockstep::detail
