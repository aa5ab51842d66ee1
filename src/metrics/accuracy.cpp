#include <lockstep/metrics/accuracy.hpp>
#include <lockstep/ops.hpp>

namespace lockstep::metrics {

Accuracy::Accuracy(std::string name) : Mean(std::move(name), {"num_right", "num_rows"}) {}

void Accuracy::update(const Tensor& labels, const Tensor& predictions) {
  count(equal(predictions.rank() == 2 ? argmax(predictions) : predictions, labels));
}

}  // namespace lockstep::metrics
