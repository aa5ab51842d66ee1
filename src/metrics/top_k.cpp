#include <lockstep/error.hpp>
#include <lockstep/metrics/top_k.hpp>
#include <lockstep/ops.hpp>

#include "detail/expects.hpp"

namespace lockstep::metrics {

TopK::TopK(std::int64_t k, std::string name) : Mean(std::move(name), {"num_right", "num_rows"}), k_(k) {
  LOCKSTEP_EXPECTS(k >= 1, InvalidArgument, "TopK '", this->name(), "': k is ", k, ". Pass at least 1.");
}

void TopK::update(const Tensor& labels, const Tensor& logits) { count(in_top_k(logits, labels, k_)); }

}  // namespace lockstep::metrics
