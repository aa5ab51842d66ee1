#pragma once

#include <string>
#include <vector>

#include <lockstep/metrics/metric.hpp>

#pragma GCC visibility push(default)

namespace lockstep::metrics {

/// Mean of all elements, weighted or not.
class Mean : public Metric {
 public:
  explicit Mean(std::string name = "mean");
  void update(const Tensor& values);
  /// Σ values·weights / Σ weights. @throws InvalidArgument  weights have another shape and are not of rank 0.
  void update(const Tensor& values, const Tensor& weights);
  Tensor result() const override;

 protected:
  Mean(std::string name, const std::vector<std::string>& sums);
  /// Counts booleans as 0 and 1.
  void count(const Tensor& hits);
};

}  // namespace lockstep::metrics

#pragma GCC visibility pop
