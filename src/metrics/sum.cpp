#include <lockstep/error.hpp>
#include <lockstep/metrics/sum.hpp>

#include "detail/expects.hpp"

namespace lockstep::metrics {

Sum::Sum(std::string name) : Metric(std::move(name), {"total"}) {}

void Sum::update(const Tensor& values) {
  LOCKSTEP_EXPECTS(!is_boolean(values.dtype()), InvalidArgument, "update of the metric '", name(),
                   "': ", describe(values), " is not a number. Cast it to one first.");
  add({amount(values)});
}

Tensor Sum::result() const { return totals()[0]; }

}  // namespace lockstep::metrics
