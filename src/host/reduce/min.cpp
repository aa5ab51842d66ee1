#include "host/reduce/axis_reduction.hpp"

namespace lockstep::host {

template void reduce_by<arithmetic::Min>(std::string_view, const TensorView&, const TensorView&,
                                         const backend::AxisExtents&, double);

}  // namespace lockstep::host
