#pragma once

#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/tensor_view.hpp>

#include "kernels/launch.hpp"

namespace lockstep::cuda {

struct Sum;
struct Product;
struct Min;
struct Max;

/// Reduces by Op; each operator is compiled in a file of its own.
/// @pre the axis is not empty.
template <class Op>
void reduce_by(const Place& place, const char* operation, const TensorView& out, const TensorView& in,
               const backend::AxisExtents& extents, double divisor);

extern template void reduce_by<Sum>(const Place&, const char*, const TensorView&, const TensorView&,
                                    const backend::AxisExtents&, double);
extern template void reduce_by<Product>(const Place&, const char*, const TensorView&, const TensorView&,
                                        const backend::AxisExtents&, double);
extern template void reduce_by<Min>(const Place&, const char*, const TensorView&, const TensorView&,
                                    const backend::AxisExtents&, double);
extern template void reduce_by<Max>(const Place&, const char*, const TensorView&, const TensorView&,
                                    const backend::AxisExtents&, double);

}  // namespace lockstep::cuda
