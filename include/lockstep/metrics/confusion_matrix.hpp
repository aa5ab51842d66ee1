#pragma once

#include <cstdint>
#include <string>

#include <lockstep/metrics/metric.hpp>

#pragma GCC visibility push(default)

namespace lockstep::metrics {

/// How often each class was taken for each, as tf.math.confusion_matrix counts.
class ConfusionMatrix : public Metric {
 public:
  /// @throws InvalidArgument  num_classes below 1, or too large for a matrix.
  explicit ConfusionMatrix(std::int64_t num_classes, std::string name = "confusion_matrix");
  /// @param labels  classes, integers [rows]. @param predictions  the same (of logits: argmax). Waits for
  /// their device. @throws InvalidArgument  a class outside [0, num_classes), shapes or dtypes that do not
  /// fit: nothing was counted.
  void update(const Tensor& labels, const Tensor& predictions);
  /// Counts each row as its weight. @param weights  numbers, [rows], or of rank 0 for all.
  void update(const Tensor& labels, const Tensor& predictions, const Tensor& weights);
  /// f64 [num_classes, num_classes]: rows are labels, columns predictions.
  Tensor result() const override;
  [[nodiscard]] std::int64_t num_classes() const noexcept { return num_classes_; }

 private:
  std::int64_t num_classes_;
};

}  // namespace lockstep::metrics

#pragma GCC visibility pop
