#include <lockstep/error.hpp>
#include <lockstep/metrics/mean.hpp>
#include <lockstep/ops.hpp>

#include "detail/expects.hpp"

namespace lockstep::metrics {

Mean::Mean(std::string name) : Mean(std::move(name), {"total", "count"}) {}
Mean::Mean(std::string name, const std::vector<std::string>& sums) : Metric(std::move(name), sums) {}

void Mean::update(const Tensor& values) {
  LOCKSTEP_EXPECTS(!is_boolean(values.dtype()), InvalidArgument, "update of the metric '", name(),
                   "': ", describe(values), " is not a number. Cast it to one first.");
  count(values);
}

void Mean::update(const Tensor& values, const Tensor& weights) {
  LOCKSTEP_EXPECTS(!is_boolean(values.dtype()) && !is_boolean(weights.dtype()), InvalidArgument,
                   "update of the metric '", name(), "': ", describe(values), " weighted by ",
                   describe(weights), " are not numbers. Cast them to numbers first.");
  LOCKSTEP_EXPECTS(weights.rank() == 0 || weights.shape() == values.shape(), InvalidArgument,
                   "update of the metric '", name(), "': weights ", describe(weights), " do not fit values ",
                   describe(values), ". Pass one weight for each value, or one for all.");
  const Tensor count =
      weights.rank() == 0 ? weights.cast(DType::f64) * static_cast<double>(values.size()) : weights;
  add({amount(values, &weights), amount(count)});
}

void Mean::count(const Tensor& hits) { add({amount(hits), amount(static_cast<double>(hits.size()))}); }

Tensor Mean::result() const {
  const auto sums = totals();
  const Tensor is_nothing = equal(sums[1], Tensor::zeros({}, DType::f64, sums[1].device())).cast(DType::f64);
  return sums[0] * (1.0 - is_nothing) / (sums[1] + is_nothing);
}

}  // namespace lockstep::metrics
