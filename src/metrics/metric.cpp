#include <lockstep/metrics/metric.hpp>
#include <lockstep/ops.hpp>

namespace lockstep::metrics {

Metric::Metric(std::string name, const std::vector<std::string>& sums)
    : name_(std::move(name)), sum_names_(sums) {
  for (const std::string& sum : sums)
    sums_.emplace_back(Tensor::scalar(0.0),
                       VariableOptions{.name = name_ + "/" + sum,
                                       .synchronization = VariableSynchronization::on_read,
                                       .aggregation = VariableAggregation::sum});
}

void Metric::reset() {
  for (Variable& sum : sums_) sum.assign(0.0);
}

std::vector<std::pair<std::string, Variable>> Metric::variables() const {
  std::vector<std::pair<std::string, Variable>> result;
  for (std::size_t k = 0; k < sums_.size(); ++k) result.emplace_back(sum_names_[k], sums_[k]);
  return result;
}

void Metric::add(std::size_t k, const Tensor& values, const Tensor* weights) {
  Tensor wide = values.cast(DType::f64);
  if (weights != nullptr) wide = wide * weights->to(values.device()).cast(DType::f64);
  // To where the sum is: in a replica function its own device, whichever was given.
  sums_[k].assign_add(lockstep::sum(wide).to(current_device()));
}

// A tensor: replicas may count differently where their writes are brought together.
void Metric::add(std::size_t k, std::int64_t count) {
  sums_[k].assign_add(Tensor::scalar(static_cast<double>(count)));
}

}  // namespace lockstep::metrics
