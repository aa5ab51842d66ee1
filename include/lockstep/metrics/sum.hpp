#pragma once

#include <string>

#include <lockstep/metrics/metric.hpp>

#pragma GCC visibility push(default)

namespace lockstep::metrics {

/// Sum of all elements.
class Sum : public Metric {
 public:
  explicit Sum(std::string name = "sum");
  /// Adds up all elements of a numeric tensor.
  /// @throws InvalidArgument  booleans (cast them first).
  void update(const Tensor& values);
  Tensor result() const override;
};

}  // namespace lockstep::metrics

#pragma GCC visibility pop
