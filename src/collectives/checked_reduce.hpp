#pragma once

#include <span>
#include <vector>

#include <lockstep/collectives/cross_device_ops.hpp>

namespace lockstep::detail {

/// CrossDeviceOps::reduce, whose results are checked: anybody may have written it.
/// @throws InvalidArgument  they are not what it promises: names it, the rank and the tensor.
RecycledVector<RecycledVector<Tensor>> checked_reduce(CrossDeviceOps& ops, ReduceOp op,
                                                      std::span<const RecycledVector<Tensor>> inputs,
                                                      const std::vector<Device>& devices, int root);

}  // namespace lockstep::detail
