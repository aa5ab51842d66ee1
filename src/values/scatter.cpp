#include "values/scatter.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

ScatterPlan::ScatterPlan(const IndexedSlices& slices, const char* what) {
  check(slices);
  const std::vector<std::int64_t> indices = slices.indices.to_vector<std::int64_t>();
  const Shape& dense = slices.dense_shape;
  for (const std::int64_t index : indices)
    LOCKSTEP_EXPECTS(index >= 0 && index < dense[0], InvalidArgument, what, ": IndexedSlices: index ", index,
                     " is outside the dense shape ", dense, ". Indices count rows from 0.");
  std::vector<std::int64_t> rows(indices.size());
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  std::ranges::stable_sort(rows, {},
                           [&](std::int64_t row) { return indices[static_cast<std::size_t>(row)]; });
  std::vector<std::int64_t> targets, begins;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t target = indices[static_cast<std::size_t>(rows[i])];
    if (!targets.empty() && targets.back() == target) continue;
    targets.push_back(target);
    begins.push_back(static_cast<std::int64_t>(i));
  }
  begins.push_back(static_cast<std::int64_t>(rows.size()));
  num_targets_ = static_cast<std::int64_t>(targets.size());
  targets.insert(targets.end(), begins.begin(), begins.end());
  targets.insert(targets.end(), rows.begin(), rows.end());
  groups_ = Tensor::from(targets, Shape(static_cast<std::int64_t>(targets.size())), Device());
  const std::int64_t n = slices.values.shape()[0];
  values_ = slices.values.contiguous().reshape(Shape(n, n == 0 ? 0 : slices.values.size() / n));
}

ScatterPlan ScatterPlan::on(const Device& device) const {
  ScatterPlan there = *this;
  there.values_ = values_.to(device);
  there.groups_ = groups_.to(device);
  return there;
}

void ScatterPlan::apply(backend::ScatterOp op, Tensor& dense) const {
  if (values_.size() == 0) return;
  const std::int64_t columns = values_.shape()[1];
  const Tensor values = values_.to(dense.device());
  const Tensor groups = groups_.to(dense.device());
  const Tensor targets = groups.slice(0, num_targets_);
  const Tensor begins = groups.slice(num_targets_, 2 * num_targets_ + 1);
  const Tensor rows = groups.slice(2 * num_targets_ + 1, groups.size());
  TensorView out = dense.view();
  out.shape = Shape(dense.size() / columns, columns);
  out.strides = values.view().strides;
  const StreamRef stream = current_stream(dense.device());
  stream.device_backend().kernels().scatter_rows(
      op, out, values.view(), {targets.view(), begins.view(), rows.view()}, stream.handle());
}

}  // namespace lockstep::detail
