#pragma once

#include <utility>
#include <vector>

#include <lockstep/tensor.hpp>
#include <lockstep/values/per_replica.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// The root of the sum of all elements' squares, of all tensors together: rank 0, f64, on the first one's
/// device. Squares are added in accumulator_dtype for each tensor, those sums in f64. Enqueued; waits for no
/// device. Without tensors: 0 on the current device.
/// @throws InvalidArgument  a tensor that is not of a floating-point dtype.
[[nodiscard]] Tensor global_norm(const std::vector<Tensor>& tensors);

/// The gradients times clip_norm / max(norm, clip_norm), and the norm, of global_norm: together they are no
/// longer than clip_norm (Pascanu, Mikolov & Bengio 2013, algorithm 1); as they were, bit for bit, where they
/// are no longer to begin with. A norm that is NaN or infinite, also because squares overflow, makes every
/// gradient NaN, as in TensorFlow's clip_by_global_norm, so that no such step goes unnoticed.
///
/// The norm and the factor are computed on the device and enqueued on its current stream: nothing waits. The
/// gradients given are not changed.
/// @throws InvalidArgument  clip_norm is not a number above 0; as global_norm.
[[nodiscard]] std::pair<std::vector<Tensor>, Tensor> clip_by_global_norm(const std::vector<Tensor>& gradients,
                                                                         double clip_norm);
/// For mirrored gradients: each device clips its components by their own norm, which has the same bits
/// everywhere, without communication.
/// @throws InvalidArgument  they differ in the number of components.
[[nodiscard]] std::pair<std::vector<Mirrored<Tensor>>, Mirrored<Tensor>> clip_by_global_norm(
    const std::vector<Mirrored<Tensor>>& gradients, double clip_norm);

}  // namespace lockstep::optim

#pragma GCC visibility pop
