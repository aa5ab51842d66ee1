#pragma once

#include <utility>
#include <vector>

#include <lockstep/tensor.hpp>
#include <lockstep/values/per_replica.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// The square root of the sum of squares of all elements of all tensors: rank 0, f64, on the first tensor's
/// device. The squares of one tensor are added in accumulator_dtype, the tensors' sums in f64. Enqueued;
/// waits for no device. Without tensors it is 0 on the current device.
/// @throws InvalidArgument  a tensor's dtype is not a floating-point one.
[[nodiscard]] Tensor global_norm(const std::vector<Tensor>& tensors);

/// The gradients times clip_norm / max(norm, clip_norm), and their global_norm `norm`. The scaled gradients
/// together are no longer than clip_norm (Pascanu, Mikolov & Bengio 2013, algorithm 1); gradients that are
/// not longer stay the same bit for bit. A norm that is NaN or infinite, which overflowing squares can cause,
/// makes every gradient NaN, as TensorFlow's clip_by_global_norm does, so that no such step goes unnoticed.
///
/// The norm and the factor are computed on the device, on its current stream, and nothing waits. The given
/// gradients are not changed.
/// @throws InvalidArgument  clip_norm is not a number above 0; as global_norm.
[[nodiscard]] std::pair<std::vector<Tensor>, Tensor> clip_by_global_norm(const std::vector<Tensor>& gradients,
                                                                         double clip_norm);
/// The same for mirrored gradients: each device clips its components by their own norm, which has the same
/// bits on all devices, without communication.
/// @throws InvalidArgument  the gradients differ in the number of components.
[[nodiscard]] std::pair<std::vector<Mirrored<Tensor>>, Mirrored<Tensor>> clip_by_global_norm(
    const std::vector<Mirrored<Tensor>>& gradients, double clip_norm);

}  // namespace lockstep::optim

#pragma GCC visibility pop
