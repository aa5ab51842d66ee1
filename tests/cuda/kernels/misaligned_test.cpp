#include <cstdint>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/backend/kernel_backend.hpp>

#include "support/operands.hpp"

namespace lockstep::test {

TEST_CASE("P29 models' kernels take elements of 8 bytes that start 4 bytes after a boundary", "[cuda]") {
  using Values = std::vector<double>;
  constexpr std::size_t kOffset = 4;
  const auto stream = test_stream().handle();
  const auto logits = operand<double>(Values{1, 3, 2, 5, 4, 4}, kOffset);

  const auto indices = operand<std::int64_t>(std::vector<std::int64_t>(3), kOffset);
  test_kernels().argmax(indices.view(Shape(2)), logits.view(Shape(2, 3)), {2, 3, 1}, stream);
  CHECK(indices.values() == std::vector<std::int64_t>{1, 0, 0});
  test_kernels().argmax(indices.view(Shape(3)), logits.view(Shape(2, 3)), {1, 2, 3}, stream);
  CHECK(indices.values() == std::vector<std::int64_t>{1, 1, 1});

  const auto labels = operand<std::int64_t>(std::vector<std::int64_t>{1, 2}, kOffset);
  const auto loss = operand<double>(Values(2), kOffset), gradient = operand<double>(Values(6), kOffset);
  const auto even_logits = operand<double>(logits.values(), 0);
  const auto even_labels = operand<std::int64_t>(labels.values(), 0);
  const auto even_loss = operand<double>(Values(2), 0), even_gradient = operand<double>(Values(6), 0);
  test_kernels().softmax_cross_entropy(loss.view(), gradient.view(Shape(2, 3)), logits.view(Shape(2, 3)),
                                       labels.view(), stream);
  test_kernels().softmax_cross_entropy(even_loss.view(), even_gradient.view(Shape(2, 3)),
                                       even_logits.view(Shape(2, 3)), even_labels.view(), stream);
  CHECK(loss.values() == even_loss.values());
  CHECK(gradient.values() == even_gradient.values());
  CHECK((loss.guards_intact() && gradient.guards_intact() && indices.guards_intact()));
}

}  // namespace lockstep::test
