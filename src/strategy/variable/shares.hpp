#pragma once

#include <vector>

#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// Parts of a sum, of which `num_parts` add up to `value` exactly, in whatever order: those from `first` on,
/// one on each device. For integers each part is the quotient, and the first parts have one more each until
/// the remainder is used up. For floating numbers each part is the quotient in whole units of the value's
/// last place, but for the first, which is the rest. Computed on the host; waits for the value's device.
/// @pre numbers, at least one device.
RecycledVector<Tensor> shares(const Tensor& value, std::span<const Device> devices, int first, int num_parts);

}  // namespace lockstep::detail
