#pragma once

#include <span>

#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// optim::clip_by_global_norm, but writes to those gradients that nobody else has a handle of.
/// @return the norm. @pre the arguments are checked.
Tensor clip_in_place(std::span<Tensor> gradients, double clip_norm);

}  // namespace lockstep::detail
