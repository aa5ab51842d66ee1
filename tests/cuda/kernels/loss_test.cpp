#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/ops.hpp>

#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("a label that is no class makes its row's loss and gradient NaN, and nothing else", "[cuda]") {
  const Device device = TestBackend::device();
  const Tensor labels = Tensor::from<std::int64_t>({1, 3, -1, 0}, {4}, device);
  const auto [loss, gradient] = softmax_cross_entropy(Tensor::ones({4, 3}, DType::f32, device), labels);
  const std::vector<float> losses = loss.to_vector<float>(), slopes = gradient.to_vector<float>();
  for (const std::size_t row : {0, 1, 2, 3}) {
    const bool is_class = row == 0 || row == 3;
    CAPTURE(row);
    CHECK(std::isnan(losses[row]) == !is_class);
    for (std::size_t column = 0; column < 3; ++column)
      CHECK(std::isnan(slopes[row * 3 + column]) == !is_class);
  }
}

TEST_CASE("P35 losses of long rows have the same bits on GPUs with less shared memory", "[cuda]") {
  constexpr std::int64_t kColumns = 70001;
  std::vector<float> logits;
  for (std::int64_t i = 0; i < 2 * kColumns; ++i)
    logits.push_back(static_cast<float>(i * 7919 % 10007) / 1000);
  std::vector<std::pair<std::vector<float>, std::vector<float>>> results;
  for (int number = 0; number < TestBackend::num_devices(); ++number) {
    const Device device = TestBackend::device(number);
    const auto [loss, gradient] = softmax_cross_entropy(Tensor::from<float>(logits, {2, kColumns}, device),
                                                        Tensor::from<std::int64_t>({1, 70000}, {2}, device));
    results.emplace_back(loss.to_vector<float>(), gradient.to_vector<float>());
    CHECK(results.back() == results.front());
  }
}

}  // namespace lockstep::test
