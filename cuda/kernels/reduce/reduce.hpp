#pragma once

#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/tensor_view.hpp>

#include "arithmetic/operators.hpp"
#include "kernels/launch.hpp"

namespace lockstep::cuda {

/// Reduces by Op; each operator is compiled in a file of its own.
/// @pre the axis is not empty.
template <class Op>
void reduce_by(const Place& place, const char* operation, const TensorView& out, const TensorView& in,
               const backend::AxisExtents& extents, double divisor);

extern template void reduce_by<arithmetic::Sum>(const Place&, const char*, const TensorView&,
                                                const TensorView&, const backend::AxisExtents&, double);
extern template void reduce_by<arithmetic::Product>(const Place&, const char*, const TensorView&,
                                                    const TensorView&, const backend::AxisExtents&, double);
extern template void reduce_by<arithmetic::Min>(const Place&, const char*, const TensorView&,
                                                const TensorView&, const backend::AxisExtents&, double);
extern template void reduce_by<arithmetic::Max>(const Place&, const char*, const TensorView&,
                                                const TensorView&, const backend::AxisExtents&, double);

}  // namespace lockstep::cuda
