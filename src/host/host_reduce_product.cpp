#include "host/host_reduction.hpp"

namespace lockstep::host {

template void reduce_by<Product>(std::string_view, const TensorView&, const TensorView&,
                                 const backend::AxisExtents&, double);

}  // namespace lockstep::host
