#pragma once

#include <string>

#include <lockstep/metrics/mean.hpp>

#pragma GCC visibility push(default)

namespace lockstep::metrics {

/// The fraction of predictions that are right.
class Accuracy : public Mean {
 public:
  explicit Accuracy(std::string name = "accuracy");
  /// @param labels  i64 [rows].
  /// @param predictions  classes, i64 [rows], or logits [rows, classes], whose argmax is the class (NaN is
  /// the largest).
  /// @throws InvalidArgument  shapes, dtypes or devices do not fit.
  void update(const Tensor& labels, const Tensor& predictions);
};

}  // namespace lockstep::metrics

#pragma GCC visibility pop
