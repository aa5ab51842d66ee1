#pragma once

#include <span>
#include <vector>

#include <lockstep/collectives/cross_device_ops.hpp>

namespace lockstep::detail {

/// Calls CrossDeviceOps::reduce, which may be a user's, and checks its results.
/// @throws InvalidArgument  they break its contract: names it, the rank and the tensor.
RecycledVector<RecycledVector<Tensor>> checked_reduce(CrossDeviceOps& ops, ReduceOp op,
                                                      std::span<const RecycledVector<Tensor>> inputs,
                                                      const std::vector<Device>& devices, int root);

}  // namespace lockstep::detail
