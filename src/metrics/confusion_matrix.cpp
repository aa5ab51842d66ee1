#include <lockstep/error.hpp>
#include <lockstep/metrics/confusion_matrix.hpp>

#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"

namespace lockstep::metrics {

namespace {

std::int64_t checked(std::int64_t num_classes, const std::string& name) {
  LOCKSTEP_EXPECTS(num_classes >= 1, InvalidArgument, "ConfusionMatrix '", name, "': num_classes is ",
                   num_classes, ". Pass at least 1.");
  return num_classes;
}

}  // namespace

// The matrix is stored with one extent, so that an element is a row.
ConfusionMatrix::ConfusionMatrix(std::int64_t num_classes, std::string name)
    : Metric(name, {"matrix"}, Shape(Shape(checked(num_classes, name), num_classes).size())),
      num_classes_(num_classes) {}

void ConfusionMatrix::update(const Tensor& labels, const Tensor& predictions) {
  update(labels, predictions, Tensor::scalar(1.0));
}

void ConfusionMatrix::update(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  for (const Tensor* classes : {&labels, &predictions})
    LOCKSTEP_EXPECTS(is_integer(classes->dtype()) && classes->rank() == 1, InvalidArgument,
                     "update of the metric '", name(), "': ", classes == &labels ? "labels " : "predictions ",
                     describe(*classes),
                     " are not classes. Pass integers [rows], such as the argmax of logits.");
  LOCKSTEP_EXPECTS(labels.size() == predictions.size(), InvalidArgument, "update of the metric '", name(),
                   "': predictions ", describe(predictions), " do not fit labels ", describe(labels),
                   ". Pass one of each for each row.");
  LOCKSTEP_EXPECTS(!is_boolean(weights.dtype()), InvalidArgument, "update of the metric '", name(),
                   "': weights ", describe(weights), " are not numbers. Cast them to numbers first.");
  LOCKSTEP_EXPECTS(weights.rank() == 0 || weights.shape() == labels.shape(), InvalidArgument,
                   "update of the metric '", name(), "': weights ", describe(weights), " do not fit labels ",
                   describe(labels), ". Pass one weight for each row, or one for all.");

  const Device& host = detail::cpu_0();
  std::vector<std::int64_t> elements = labels.cast(DType::i64).to_vector<std::int64_t>();
  const std::vector<std::int64_t> columns = predictions.cast(DType::i64).to_vector<std::int64_t>();
  for (std::size_t row = 0; row < elements.size(); ++row) {
    for (const bool is_label : {true, false}) {
      const std::int64_t given = is_label ? elements[row] : columns[row];
      LOCKSTEP_EXPECTS(given >= 0 && given < num_classes_, InvalidArgument, "update of the metric '", name(),
                       "': ", is_label ? "label " : "prediction ", given, " of row ", row,
                       " is not one of the ", num_classes_, " classes. Pass classes in [0, ", num_classes_,
                       ").");
    }
    elements[row] = elements[row] * num_classes_ + columns[row];
  }
  const Tensor wide = weights.to(host).cast(DType::f64);
  const Tensor amounts =
      wide.rank() == 1 ? wide : Tensor::full(labels.shape(), wide.item<double>(), DType::f64, host);
  add(0, {amounts, Tensor::from(elements, labels.shape(), host), Shape(num_classes_ * num_classes_)});
}

Tensor ConfusionMatrix::result() const { return totals()[0].reshape({num_classes_, num_classes_}); }

}  // namespace lockstep::metrics
