#include <cmath>
#include <cstdint>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using Catch::Matchers::WithinRel;
using lockstep::test::says;

namespace {

Tensor floats(std::initializer_list<float> values, const Shape& shape) { return Tensor::from(values, shape); }

}  // namespace

TEMPLATE_LIST_TEST_CASE("matmul multiplies, either operand transposed or not", "[ops]",
                        test::WideFloatingTypes) {
  using T = TestType;
  const std::vector<T> expected{58, 64, 139, 154};
  const Tensor a = Tensor::from<T>({1, 2, 3, 4, 5, 6}, {2, 3}),
               a_transposed = Tensor::from<T>({1, 4, 2, 5, 3, 6}, {3, 2});
  const Tensor b = Tensor::from<T>({7, 8, 9, 10, 11, 12}, {3, 2}),
               b_transposed = Tensor::from<T>({7, 9, 11, 8, 10, 12}, {2, 3});
  CHECK(matmul(a, b).to_vector<T>() == expected);
  CHECK(matmul(a, b).shape() == Shape(2, 2));
  CHECK(matmul(a_transposed, b, true).to_vector<T>() == expected);
  CHECK(matmul(a, b_transposed, false, true).to_vector<T>() == expected);
  CHECK(matmul(a_transposed, b_transposed, true, true).to_vector<T>() == expected);
}

TEST_CASE("matmul of strided, single and empty operands", "[ops]") {
  const Tensor wide = floats({1, 2, 9, 3, 4, 9}, {2, 3});
  CHECK(matmul(wide.narrow(1, 0, 2), floats({1, 1}, {2, 1})).to_vector<float>() == std::vector<float>{3, 7});
  CHECK(matmul(floats({3}, {1, 1}), floats({5}, {1, 1})).to_vector<float>() == std::vector<float>{15});
  CHECK(matmul(Tensor::zeros({0, 3}), Tensor::zeros({3, 2})).shape() == Shape(0, 2));
  CHECK(matmul(Tensor::zeros({2, 0}), Tensor::zeros({0, 3})).to_vector<float>() == std::vector<float>(6, 0));
}

TEST_CASE("matmul refuses operands that do not fit, naming both", "[ops]") {
  const Tensor a = Tensor::zeros({2, 3});
  CHECK_THROWS_MATCHES(matmul(a, a), InvalidArgument,
                       says("matmul", "[2, 3] float32", "3 columns", "2 rows"));
  CHECK_THROWS_MATCHES(matmul(a, Tensor::zeros({2, 3}), true, true), InvalidArgument,
                       says("(transposed)", "2 columns", "3 rows"));
  CHECK_THROWS_MATCHES(matmul(a, Tensor::zeros({3})), InvalidArgument,
                       says("[2, 3] float32", "[3] float32", "matrices"));
  CHECK_THROWS_MATCHES(matmul(a, Tensor::zeros({3, 2}, DType::f64)), InvalidArgument,
                       says("float32", "float64"));
  CHECK_THROWS_MATCHES(matmul(a, Tensor::zeros({3, 2}, DType::f32, "CPU:1")), InvalidArgument,
                       says("CPU:0", "CPU:1"));
  CHECK_THROWS_MATCHES(matmul(Tensor::zeros({1, 1}, DType::i32), Tensor::zeros({1, 1}, DType::i32)),
                       InvalidArgument, says("matmul", "floating-point", "int32"));
}

TEMPLATE_LIST_TEST_CASE("exp, log and sqrt of floating-point elements", "[ops]", test::WideFloatingTypes) {
  using T = TestType;
  const std::vector<T> in{T(0.25), T(1), T(2)};
  const Tensor t = Tensor::from(in, {3});
  for (std::size_t i = 0; i < in.size(); ++i) {
    // The library's functions need not round as the test's do.
    CHECK_THAT(exp(t).to_vector<T>()[i], WithinRel(std::exp(in[i]), T(1e-6)));
    CHECK_THAT(log(t).to_vector<T>()[i] + 1, WithinRel(std::log(in[i]) + 1, T(1e-6)));
    CHECK_THAT(sqrt(t).to_vector<T>()[i], WithinRel(std::sqrt(in[i]), T(1e-6)));
  }
  CHECK(exp(Tensor::zeros({0}, dtype_of<T>)).shape() == Shape(0));
}

TEST_CASE("element-wise functions work in half precision and on views", "[ops]") {
  CHECK(sqrt(Tensor::full({2}, f16(9.0f))).to_vector<f16>() == std::vector<f16>(2, f16(3.0f)));
  CHECK(exp(Tensor::full({1}, bf16(0.0f))).item<bf16>() == bf16(1.0f));
  CHECK(sqrt(floats({1, 4, 9, 16}, {2, 2}).narrow(1, 1, 2)).to_vector<float>() == std::vector<float>{2, 4});
}

TEST_CASE("element-wise functions refuse what has no logarithm", "[ops]") {
  const Tensor i = Tensor::ones({2}, DType::i32), b = Tensor::full({2}, true);
  CHECK_THROWS_MATCHES(exp(i), InvalidArgument, says("exp", "floating-point", "[2] int32"));
  CHECK_THROWS_MATCHES(log(i), InvalidArgument, says("log", "floating-point", "[2] int32"));
  CHECK_THROWS_MATCHES(sqrt(b), InvalidArgument, says("sqrt", "floating-point", "[2] bool"));
  CHECK_THROWS_MATCHES(relu(b), InvalidArgument, says("relu", "booleans"));
  CHECK_THROWS_MATCHES(relu_gradient(b, b), InvalidArgument, says("relu_gradient", "booleans"));
}

TEST_CASE("relu keeps what is positive, and its gradient passes there", "[ops]") {
  const Tensor t = floats({-1, 0, 2}, {3});
  CHECK(relu(t).to_vector<float>() == std::vector<float>{0, 0, 2});
  CHECK(relu(Tensor::from<std::int32_t>({-3, 3}, {2})).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{0, 3});
  CHECK(relu_gradient(floats({5, 6, 7}, {3}), t).to_vector<float>() == std::vector<float>{0, 0, 7});
  CHECK_THROWS_MATCHES(relu_gradient(Tensor::scalar(1.0f), t), InvalidArgument,
                       says("relu_gradient", "[] float32", "[3] float32"));
}

TEST_CASE("cast as a function is cast as a member", "[ops]") {
  CHECK(cast(floats({1.5f}, {1}), DType::i32).item<std::int32_t>() == 1);
}

TEST_CASE("equal says where tensors agree", "[ops]") {
  const DType dtype = GENERATE(from_range(test::kAllDTypes));
  const Tensor a = Tensor::from<float>({0, 1, 1}, {3}).cast(dtype),
               b = Tensor::from<float>({0, 0, 1}, {3}).cast(dtype);
  CHECK(equal(a, b).dtype() == DType::boolean);
  CHECK(equal(a, b).to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK_THROWS_MATCHES(equal(a, a.slice(0, 1)), InvalidArgument, says("equal", "[3]", "[1]"));
}

TEST_CASE("equal refuses other dtypes and devices", "[ops]") {
  const Tensor a = Tensor::zeros({1});
  CHECK_THROWS_MATCHES(equal(a, Tensor::zeros({1}, DType::f64)), InvalidArgument,
                       says("equal", "float32", "float64"));
  CHECK_THROWS_MATCHES(equal(a, Tensor::zeros({1}, DType::f32, "CPU:1")), InvalidArgument,
                       says("equal", "CPU:0", "CPU:1"));
  const float nan = std::nanf("");
  CHECK_FALSE(equal(Tensor::scalar(nan), Tensor::scalar(nan)).item<bool>());
}

TEST_CASE("add_row adds a row to each row", "[ops]") {
  const Tensor matrix = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(add_row(matrix, floats({10, 20, 30}, {3})).to_vector<float>() ==
        std::vector<float>{11, 22, 33, 14, 25, 36});
  CHECK(add_row(Tensor::zeros({0, 3}), Tensor::zeros({3})).shape() == Shape(0, 3));
  CHECK_THROWS_MATCHES(add_row(matrix, Tensor::zeros({2})), InvalidArgument,
                       says("add_row", "[2] float32", "[2, 3] float32"));
  CHECK_THROWS_MATCHES(add_row(matrix, Tensor::zeros({1, 3})), InvalidArgument,
                       says("add_row", "[1, 3] float32"));
  CHECK_THROWS_MATCHES(add_row(matrix, Tensor::zeros({3}, DType::f16)), InvalidArgument,
                       says("add_row", "float16"));
  CHECK_THROWS_MATCHES(add_row(matrix, Tensor::zeros({3}, DType::f32, "CPU:1")), InvalidArgument,
                       says("CPU:1"));
}

TEST_CASE("concatenate joins along any axis", "[ops]") {
  const DType dtype = GENERATE(from_range(test::kAllDTypes));
  const Tensor a = Tensor::from<float>({0, 1, 1, 0}, {2, 2}).cast(dtype);
  const Tensor b = Tensor::from<float>({1, 1}, {2, 1}).cast(dtype);
  const std::vector<Tensor> columns{a, Tensor::empty({2, 0}, dtype), b};
  const Tensor wide = concatenate(columns, 1);
  CHECK(wide.shape() == Shape(2, 3));
  CHECK(wide.dtype() == dtype);
  CHECK(wide.cast(DType::f32).to_vector<float>() == std::vector<float>{0, 1, 1, 1, 0, 1});
  CHECK(concatenate(columns, -1).shape() == Shape(2, 3));
  const std::vector<Tensor> rows{a, wide.narrow(1, 1, 3)};
  CHECK(concatenate(rows, 0).cast(DType::f32).to_vector<float>() ==
        std::vector<float>{0, 1, 1, 0, 1, 1, 0, 1});
}

TEST_CASE("concatenate collects on the first part's device and copies", "[ops]") {
  const Tensor a = Tensor::ones({1}, DType::f32, "CPU:1");
  const std::vector<Tensor> parts{a, Tensor::zeros({2}, DType::f32, "CPU:2")};
  Tensor joined = concatenate(parts, 0);
  CHECK(joined.device() == Device("CPU:1"));
  CHECK(joined.to_vector<float>() == std::vector<float>{1, 0, 0});
  joined.fill_(5);
  CHECK(a.item<float>() == 1);
  CHECK_FALSE(concatenate({&a, 1}, 0).is_same_object(a));
}

TEST_CASE("concatenate refuses parts that do not fit, naming both", "[ops]") {
  const Tensor a = Tensor::zeros({2, 2});
  const auto join = [&](const Tensor& other, int axis) {
    const std::vector<Tensor> parts{a, other};
    return concatenate(parts, axis);
  };
  CHECK_THROWS_MATCHES(join(Tensor::zeros({2, 3}), 0), InvalidArgument,
                       says("concatenate", "[2, 2] float32", "[2, 3] float32", "axis 0"));
  CHECK_THROWS_MATCHES(join(Tensor::zeros({2}), 0), InvalidArgument, says("[2, 2] float32", "[2] float32"));
  CHECK_THROWS_MATCHES(join(Tensor::zeros({2, 2}, DType::f64), 0), InvalidArgument,
                       says("float32", "float64", "dtypes"));
  CHECK_THROWS_MATCHES(join(a, 2), InvalidArgument, says("concatenate", "axis 2", "rank 2"));
  CHECK_THROWS_MATCHES(concatenate({}, 0), InvalidArgument, says("concatenate", "no parts"));
  const Tensor scalar = Tensor::scalar(1);
  CHECK_THROWS_MATCHES(concatenate({&scalar, 1}, 0), InvalidArgument, says("concatenate", "rank 0"));
}

TEST_CASE("softmax_cross_entropy gives loss and gradient", "[ops]") {
  // Equal logits: each of n classes has probability 1/n.
  const auto [loss, gradient] =
      softmax_cross_entropy(Tensor::zeros({2, 4}, DType::f64), Tensor::from<std::int64_t>({1, 3}, {2}));
  for (const double value : loss.to_vector<double>()) CHECK_THAT(value, WithinRel(std::log(4.0), 1e-12));
  CHECK(gradient.to_vector<double>() ==
        std::vector<double>{0.25, -0.75, 0.25, 0.25, 0.25, 0.25, 0.25, -0.75});
}

TEST_CASE("softmax_cross_entropy does not overflow, and takes views", "[ops]") {
  const Tensor logits = floats({1000, 0, 9, 0, 1000, 9}, {2, 3}).narrow(1, 0, 2);
  const Tensor labels = Tensor::from<std::int64_t>({0, 7, 0, 7}, {2, 2}).narrow(1, 0, 1).reshape({2});
  const auto [loss, gradient] = softmax_cross_entropy(logits, labels);
  CHECK(loss.to_vector<float>() == std::vector<float>{0, 1000});
  CHECK(gradient.to_vector<float>() == std::vector<float>{0, 0, -1, 1});
  const auto [no_loss, no_gradient] =
      softmax_cross_entropy(Tensor::zeros({0, 3}), Tensor::zeros({0}, DType::i64));
  CHECK(no_loss.shape() == Shape(0));
  CHECK(no_gradient.shape() == Shape(0, 3));
}

TEST_CASE("softmax_cross_entropy refuses labels that do not fit", "[ops]") {
  const Tensor logits = Tensor::zeros({2, 3}), labels = Tensor::zeros({2}, DType::i64);
  CHECK_THROWS_MATCHES(softmax_cross_entropy(logits, labels.cast(DType::i32)), InvalidArgument,
                       says("labels", "[2] int32", "int64"));
  CHECK_THROWS_MATCHES(softmax_cross_entropy(logits, Tensor::zeros({3}, DType::i64)), InvalidArgument,
                       says("[3] int64", "[2, 3] float32"));
  CHECK_THROWS_MATCHES(softmax_cross_entropy(logits.reshape({6}), labels), InvalidArgument,
                       says("[2] int64", "[6] float32"));
  CHECK_THROWS_MATCHES(softmax_cross_entropy(logits.cast(DType::i32), labels), InvalidArgument,
                       says("floating-point", "int32"));
  CHECK_THROWS_MATCHES(softmax_cross_entropy(logits, labels.to("CPU:1")), InvalidArgument,
                       says("CPU:0", "CPU:1"));
  CHECK_THROWS_MATCHES(softmax_cross_entropy(logits, labels + 3), InvalidArgument,
                       says("label 3", "row 0", "3 classes"));
  CHECK_THROWS_MATCHES(softmax_cross_entropy(logits, labels - 1), InvalidArgument, says("label -1", "row 0"));
  CHECK_THROWS_MATCHES(softmax_cross_entropy(Tensor::zeros({2, 0}), labels), InvalidArgument,
                       says("[2, 0] float32", "no classes"));
}
