#pragma once

#include <vector>

#include <lockstep/collectives/cross_device_ops.hpp>

namespace lockstep::detail {

/// CrossDeviceOps::reduce, whose results are checked: anybody may have written it.
/// @throws InvalidArgument  they are not what it promises: names it, the rank and the tensor.
std::vector<std::vector<Tensor>> checked_reduce(CrossDeviceOps& ops, ReduceOp op,
                                                const std::vector<std::vector<Tensor>>& inputs,
                                                const std::vector<Device>& devices, int root);

}  // namespace lockstep::detail
