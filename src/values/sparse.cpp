#include "values/sparse.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "values/scatter.hpp"

namespace lockstep {

void check(const IndexedSlices& slices) {
  const Tensor& values = slices.values;
  const Tensor& indices = slices.indices;
  LOCKSTEP_EXPECTS(indices.dtype() == DType::i64 && indices.rank() == 1, InvalidArgument,
                   "IndexedSlices: indices are ", describe(indices), ". Pass int64 of rank 1.");
  LOCKSTEP_EXPECTS(values.rank() >= 1 && values.rank() == slices.dense_shape.rank() &&
                       values.shape()[0] == indices.size() &&
                       values.shape().without(0) == slices.dense_shape.without(0),
                   InvalidArgument, "IndexedSlices: values ", values.shape(), " do not fit ", indices.size(),
                   " indices into a dense shape ", slices.dense_shape,
                   ". Pass values [number of indices, …] with the dense rows' shape.");
  LOCKSTEP_EXPECTS(values.device() == indices.device(), InvalidArgument, "IndexedSlices: values on ",
                   values.device(), ", indices on ", indices.device(), ". Put both on one device.");
}

Tensor IndexedSlices::to_dense() const {
  const detail::ScatterPlan plan(*this, "to_dense");
  Tensor dense = Tensor::zeros(dense_shape, values.dtype(), values.device());
  plan.apply(backend::ScatterOp::add, dense);
  return dense;
}

namespace detail {

void check_sparse_reduction(ReduceOp op, const IndexedSlices& slices) {
  check(slices);
  LOCKSTEP_EXPECTS(op == ReduceOp::sum || op == ReduceOp::mean, InvalidArgument,
                   "IndexedSlices: sparse rows can only be summed or averaged, not reduced with ", op,
                   ". Make them dense with to_dense() first.");
  static_cast<void>(reduced_dtype(op, slices.values.dtype()));  // refuses booleans
}

}  // namespace detail

}  // namespace lockstep
