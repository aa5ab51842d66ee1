#include "values/sparse.hpp"

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>

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
  reduced_dtype(op, slices.values.dtype());  // refuses booleans
}

Tensor divided(const Tensor& t, double divisor) {
  Tensor floating = t.cast(reduced_dtype(ReduceOp::mean, t.dtype()));
  Tensor result = Tensor::empty(floating.shape(), floating.dtype(), floating.device());
  if (result.size() > 0) {
    const StreamRef stream = current_stream(result.device());
    floating = floating.contiguous();
    stream.device_backend().kernels().divide(result.view(), floating.view(), divisor, stream.handle());
  }
  return result;
}

void check_gather(std::span<const std::span<const TensorView>> parts, std::int64_t axis,
                  std::string_view what) {
  for (std::size_t r = 0; r < parts.size(); ++r) {
    LOCKSTEP_EXPECTS(parts[r].size() == parts[0].size(), CollectiveMismatch, what, ": replica ", r,
                     " brought ", parts[r].size(), " tensors, replica 0 ", parts[0].size(),
                     ". Pass the same structure on every replica.");
    for (std::size_t k = 0; k < parts[r].size(); ++k) {
      const TensorView& first = parts[0][k];
      const TensorView& part = parts[r][k];
      LOCKSTEP_EXPECTS(part.shape.rank() > 0, InvalidArgument, what, " on replica ", r,
                       ": scalars cannot be concatenated. Reshape them to [1] first.");
      LOCKSTEP_EXPECTS(part.dtype == first.dtype, CollectiveMismatch, what, " on replica ", r, ": ",
                       part.shape, " ", part.dtype, " differs from replica 0's ", first.shape, " ",
                       first.dtype, ". Pass equal dtypes on every replica.");
      LOCKSTEP_EXPECTS(part.shape.rank() == first.shape.rank(), InvalidArgument, what, " on replica ", r,
                       ": shape ", part.shape, " differs in rank from replica 0's ", first.shape,
                       ". Pass equal ranks on every replica.");
      const int along = part.shape.normalize_axis(axis, what);
      LOCKSTEP_EXPECTS(part.shape.without(along) == first.shape.without(along), InvalidArgument, what,
                       " on replica ", r, ": shape ", part.shape, " differs from replica 0's ", first.shape,
                       " beside axis ", axis, ". Only the sizes along that axis may differ.");
    }
  }
}

}  // namespace detail

}  // namespace lockstep
