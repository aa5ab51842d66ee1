#include <algorithm>
#include <cstdint>

#include "arithmetic/operators.hpp"
#include "cuda_kernels.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"

namespace lockstep::cuda {
namespace {

using backend::ScatterOp;

template <class C>
__device__ C apply(ScatterOp op, C a, C b) {
  switch (op) {
    case ScatterOp::add: return arithmetic::Sum::apply(a, b);
    case ScatterOp::subtract: return arithmetic::Difference::apply(a, b);
    case ScatterOp::multiply: return arithmetic::Product::apply(a, b);
    case ScatterOp::divide: return arithmetic::Quotient::apply(a, b);
    case ScatterOp::min: return arithmetic::Min::apply(a, b);
    case ScatterOp::max: return arithmetic::Max::apply(a, b);
    default: return b;
  }
}

struct Groups {
  const std::int64_t* targets;
  const std::int64_t* begins;
  const std::int64_t* rows;
  std::int64_t size;
};

/// Each thread does one element of the target rows; neighbours read neighbouring columns.
template <class T>
__global__ void __launch_bounds__(kThreads)
    scatter_kernel(ScatterOp op, void* out, const void* in, Groups groups, std::int64_t columns,
                   bool aligned) {
  const std::int64_t count = groups.size * columns;
  for (std::int64_t i = thread_index(); i < count; i += num_threads()) {
    const std::int64_t group = i / columns;
    const std::int64_t column = i - group * columns;
    const std::int64_t target = groups.targets[group] * columns + column;
    auto value = widen(load<T, 1>(out, target, aligned).elements[0]);
    const std::int64_t end = groups.begins[group + 1];
    for (std::int64_t k = groups.begins[group]; k < end; ++k)
      value = apply(op, value, widen(load<T, 1>(in, groups.rows[k] * columns + column, aligned).elements[0]));
    store<T, 1>(out, target, {narrow<T>(value)}, aligned);
  }
}

TensorView as_bytes(TensorView view) {
  view.dtype = DType::u8;
  return view;
}

}  // namespace

void CudaKernels::scatter_rows(ScatterOp op, const TensorView& out, const TensorView& in,
                               const backend::RowGroups& groups, backend::StreamHandle stream) {
  if (op == ScatterOp::assign && is_boolean(out.dtype))
    return scatter_rows(op, as_bytes(out), as_bytes(in), groups, stream);
  const Place place = place_on(stream);
  const auto indices = [](const TensorView& view) { return static_cast<const std::int64_t*>(view.data); };
  const Groups native{indices(groups.targets), indices(groups.begins), indices(groups.rows),
                      groups.targets.size()};
  const std::int64_t columns = out.shape[1];
  dispatch_arithmetic(name(op), out, [&]<class T>() {
    launch(place, name(op), blocks_for(native.size * columns), kThreads, scatter_kernel<T>, op, out.data,
           in.data, native, columns, are_multiples(sizeof(T), out.data, in.data));
  });
}

}  // namespace lockstep::cuda
