#pragma once

#include <cstdint>
#include <string>

#include <lockstep/metrics/mean.hpp>

#pragma GCC visibility push(default)

namespace lockstep::metrics {

/// The fraction of labels whose logit is among the k largest of their row (in_top_k).
class TopK : public Mean {
 public:
  /// @throws InvalidArgument  k is below 1.
  explicit TopK(std::int64_t k, std::string name = "top_k");
  /// @param labels  i64 [rows]. @param logits  [rows, classes].
  void update(const Tensor& labels, const Tensor& logits);
  [[nodiscard]] std::int64_t k() const noexcept { return k_; }

 private:
  std::int64_t k_;
};

}  // namespace lockstep::metrics

#pragma GCC visibility pop
