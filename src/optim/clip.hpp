#pragma once

#include <span>

#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// optim::clip_by_global_norm, but writes in place to gradients whose storage is not shared.
/// @return the norm. @pre the arguments are checked.
Tensor clip_in_place(std::span<Tensor> gradients, double clip_norm);

}  // namespace lockstep::detail
