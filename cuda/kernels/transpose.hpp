#pragma once

#include <lockstep/tensor_view.hpp>

#include "detail/loops.hpp"
#include "kernels/launch.hpp"

namespace lockstep::cuda {

/// Copies between views of one dtype, if that is a transposition of matrices. @return whether it is.
bool transpose(const Place& place, const TensorView& out, const TensorView& in,
               const lockstep::detail::Loops& loops);

}  // namespace lockstep::cuda
