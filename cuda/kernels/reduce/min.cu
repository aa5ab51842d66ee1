#include "kernels/reduce/reduce.cuh"

namespace lockstep::cuda {

template void reduce_by<arithmetic::Min>(const Place&, const char*, const TensorView&, const TensorView&,
                                         const backend::AxisExtents&, double);

}  // namespace lockstep::cuda
