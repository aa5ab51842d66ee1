#include <cmath>
#include <cstdint>
#include <utility>
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

TEST_CASE("P29 matrices begin anywhere, which cuBLAS does not take", "[cuda]") {
  const auto stream = test_stream().handle();
  for (const std::size_t offset : {1, 2, 7}) {
    const auto a = operand<float>({1, 2, 3, 4, 5, 6}, offset), b = operand<float>({1, 0, 2}, offset);
    const auto out = operand<float>({7, 7}, offset);
    test_kernels().matmul(out.view(Shape(2, 1)), a.view(Shape(2, 3)), false, b.view(Shape(3, 1)), false,
                          stream);
    CHECK(out.values() == std::vector<float>{7, 16});
    CHECK((out.guards_intact() && a.guards_intact()));
  }
}

TEST_CASE("P35 elements that start at no multiple of their size have the same sums and places", "[cuda]") {
  const auto stream = test_stream().handle();
  for (const auto& extents : std::vector<backend::AxisExtents>{
           {3, 1001, 1}, {300, 37, 1}, {40, 5, 7}, {2, 511, 63}, {2, 64, 256}, {2, 40, 1001}}) {
    const std::int64_t results = extents.outer * extents.inner;
    const auto values = elements<float>(
        results * extents.axis, [](std::int64_t i) { return 0.1f * static_cast<float>(i * 7 % 1000); });
    const auto reduced = [&](std::size_t offset) {
      const auto in = operand<float>(values, offset);
      const auto sums = result<float>(results);
      const auto places = result<std::int64_t>(results);
      test_kernels().reduce_axis(ReduceOp::sum, sums.view(), in.view(), extents, 1, stream);
      test_kernels().argmax(places.view(), in.view(), extents, stream);
      CHECK((sums.guards_intact() && places.guards_intact()));
      return std::pair(sums.values(), places.values());
    };
    CAPTURE(extents.outer, extents.axis, extents.inner);
    CHECK(reduced(1) == reduced(0));
    CHECK(reduced(18) == reduced(0));
  }
}

TEST_CASE("flags are written to any address", "[cuda]") {
  const auto stream = test_stream().handle();
  const auto values = elements<float>(3001, [](std::int64_t i) { return static_cast<float>(i % 5); });
  const auto a = operand<float>(values, 4);
  const auto b =
      operand<float>(elements<float>(3001, [](std::int64_t i) { return static_cast<float>(i % 3); }), 4);
  for (const std::size_t offset : {0, 1, 6, 31}) {
    const auto flags = result<bool>(3001);
    const auto moved = operand<bool>(flags.values(), offset);
    test_kernels().binary(backend::BinaryOp::equal, moved.view(), a.view(), b.view(), stream);
    CHECK(moved.values() == elements<bool>(3001, [](std::int64_t i) { return i % 5 == i % 3; }));
    CHECK(moved.guards_intact());
  }
}

TEST_CASE("the labels of long rows are ranked in parts", "[cuda]") {
  const auto stream = test_stream().handle();
  constexpr std::int64_t kColumns = 9001;  // rows that are longer than what a block stages
  const auto logits = operand<float>(
      elements<float>(3 * kColumns,
                      [](std::int64_t i) { return static_cast<float>(i % kColumns * 37 % kColumns); }),
      4);
  const auto labels = operand<std::int64_t>({0, 1, 9000}, 0);  // with 9000, 8963 and 36 larger ones
  const auto in_top = [&](std::int64_t k) {
    const auto is_in = result<bool>(3);
    test_kernels().in_top_k(is_in.view(), logits.view(Shape(3, kColumns)), labels.view(), k, stream);
    CHECK(is_in.guards_intact());
    return is_in.values();
  };
  CHECK(in_top(36) == std::vector<std::uint8_t>{0, 0, 0});
  CHECK(in_top(37) == std::vector<std::uint8_t>{0, 0, 1});
  CHECK(in_top(8964) == std::vector<std::uint8_t>{0, 1, 1});
  CHECK(in_top(9001) == std::vector<std::uint8_t>{1, 1, 1});

  // Their losses agree with those of the host's arithmetic.
  const auto loss = result<float>(3);
  const auto zeros = operand<float>(std::vector<float>(3 * kColumns), 4);
  test_kernels().softmax_cross_entropy(loss.view(), TensorView(), zeros.view(Shape(3, kColumns)),
                                       labels.view(), stream);
  for (const float value : loss.values()) CHECK(std::abs(value - std::log(float{kColumns})) < 1e-5f);
}

}  // namespace lockstep::test
