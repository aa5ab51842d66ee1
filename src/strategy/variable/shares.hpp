#pragma once

#include <vector>

#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// Parts of a sum, one on each device, that add up to `value` exactly, in whatever order. Of
/// integers each part is the quotient, with one of the remainder for each of the first. Of floating numbers
/// each is the quotient in whole units of the value's last place, and the first what the others leave.
/// Computed on the host; waits for the value's device.
/// @pre numbers, at least one device.
RecycledVector<Tensor> shares(const Tensor& value, std::span<const Device> devices);

}  // namespace lockstep::detail
