#include <lockstep/metrics/metric.hpp>
#include <lockstep/ops.hpp>

#include "detail/cpu_0.hpp"
#include "strategy/variable/variable_access.hpp"

namespace lockstep::metrics {

Metric::Metric(std::string name, const std::vector<std::string>& sums, const Shape& shape)
    : name_(std::move(name)), sum_names_(sums) {
  for (const std::string& sum : sums)
    sums_.emplace_back(Tensor::zeros(shape, DType::f64),
                       VariableOptions{.name = name_ + "/" + sum,
                                       .synchronization = VariableSynchronization::on_read,
                                       .aggregation = VariableAggregation::sum});
}

void Metric::reset() {
  const Tensor zero = Tensor::zeros(sums_.front().shape(), DType::f64, detail::cpu_0());
  const detail::RecycledVector<Tensor> zeros(sums_.size(), zero);
  detail::assign_variables(sums_, zeros);
}

std::vector<std::pair<std::string, Variable>> Metric::variables() const {
  std::vector<std::pair<std::string, Variable>> result;
  for (std::size_t k = 0; k < sums_.size(); ++k) result.emplace_back(sum_names_[k], sums_[k]);
  return result;
}

Tensor Metric::amount(const Tensor& values, const Tensor* weights) {
  Tensor wide = values.cast(DType::f64);
  if (weights != nullptr) wide = wide * weights->to(values.device()).cast(DType::f64);
  return lockstep::sum(wide).to(current_device());
}

// A Tensor, not a host scalar: with central storage replicas may contribute different counts, which are
// summed.
Tensor Metric::amount(double value) { return Tensor::scalar(value); }

void Metric::add(std::initializer_list<Tensor> amounts) {
  detail::add_once(sums_, {amounts.begin(), amounts.size()});
}

void Metric::add(std::size_t k, const IndexedSlices& rows) { detail::scatter_add_once(sums_[k], rows); }

detail::RecycledVector<Tensor> Metric::totals() const {
  auto totals = detail::read_variables(sums_);
  for (Tensor& total : totals) total = total.read_only();
  return totals;
}

}  // namespace lockstep::metrics
