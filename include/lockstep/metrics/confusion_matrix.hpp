#pragma once

#include <cstdint>
#include <string>

#include <lockstep/metrics/metric.hpp>

#pragma GCC visibility push(default)

namespace lockstep::metrics {

/// Counts, for each class, how often each class was predicted, as tf.math.confusion_matrix does.
class ConfusionMatrix : public Metric {
 public:
  /// @throws InvalidArgument  num_classes is below 1, or too large for a matrix.
  explicit ConfusionMatrix(std::int64_t num_classes, std::string name = "confusion_matrix");
  /// Waits for the operands' device. @param labels  classes, integers [rows]. @param predictions  classes,
  /// integers [rows] (argmax of logits). @throws InvalidArgument  a class is outside [0, num_classes), or
  /// shapes or dtypes do not fit; nothing was counted.
  void update(const Tensor& labels, const Tensor& predictions);
  /// Counts each row with its weight. @param weights  numbers, [rows], or one of rank 0 for all rows.
  void update(const Tensor& labels, const Tensor& predictions, const Tensor& weights);
  /// f64 [num_classes, num_classes]: rows are labels, columns predictions.
  Tensor result() const override;
  [[nodiscard]] std::int64_t num_classes() const noexcept { return num_classes_; }

 private:
  std::int64_t num_classes_;
};

}  // namespace lockstep::metrics

#pragma GCC visibility pop
