#include <cmath>
#include <cstdint>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"
#include "support/operands.hpp"

/// Kernels that models are made of: matrix products, the loss, the optimizers' updates.
namespace lockstep::test {
namespace {

using backend::UpdateParameters;

const TensorView kNone;

void matmul(const TensorView& out, const TensorView& a, bool transpose_a, const TensorView& b,
            bool transpose_b) {
  test_kernels().matmul(out, a, transpose_a, b, transpose_b, test_stream().handle());
}

void softmax_cross_entropy(const TensorView& loss, const TensorView& gradient, const TensorView& logits,
                           const TensorView& labels) {
  test_kernels().softmax_cross_entropy(loss, gradient, logits, labels, test_stream().handle());
}

template <class T>
bool close(T actual, double expected, double tolerance) {
  return std::abs(static_cast<double>(actual) - expected) <= tolerance * (1 + std::abs(expected));
}

/// A few units in the last place of T: devices' functions differ there.
template <class T>
constexpr double kTolerance = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());

}  // namespace

TEMPLATE_LIST_TEST_CASE("P29 matrices are multiplied, each transposed or not", "[model_kernels]",
                        WideFloatingTypes) {
  using T = TestType;
  const std::int64_t m = GENERATE(1, 3, 33), n = GENERATE(1, 5, 31), k = GENERATE(1, 7, 65);
  const bool transpose_a = GENERATE(false, true), transpose_b = GENERATE(false, true);
  const auto a_at = [](std::int64_t i, std::int64_t p) { return (i + 2 * p) % 5 - 2; };
  const auto b_at = [](std::int64_t p, std::int64_t j) { return (3 * p + j) % 4 - 1; };
  const auto a = operand<T>(elements<T>(
      m * k, [&](std::int64_t i) { return transpose_a ? a_at(i % m, i / m) : a_at(i / k, i % k); }));
  const auto b = operand<T>(elements<T>(
      k * n, [&](std::int64_t i) { return transpose_b ? b_at(i % k, i / k) : b_at(i / n, i % n); }));
  const auto out = result<T>(m * n);
  matmul(out.view(Shape(m, n)), a.view(transpose_a ? Shape(k, m) : Shape(m, k)), transpose_a,
         b.view(transpose_b ? Shape(n, k) : Shape(k, n)), transpose_b);
  CHECK(out.values() == elements<T>(m * n, [&](std::int64_t i) {
          std::int64_t sum = 0;
          for (std::int64_t p = 0; p < k; ++p) sum += a_at(i / n, p) * b_at(p, i % n);
          return sum;
        }));
  CHECK(out.guards_intact());
}

TEMPLATE_LIST_TEST_CASE("P33 a matrix product over nothing is zero", "[model_kernels]", WideFloatingTypes) {
  using T = TestType;
  const auto out = result<T>(6);
  const Device device = test_stream().device();
  matmul(out.view(Shape(2, 3)), TensorView(static_cast<void*>(nullptr), Shape(2, 0), dtype_of<T>, device),
         false, TensorView(static_cast<void*>(nullptr), Shape(0, 3), dtype_of<T>, device), false);
  CHECK(out.values() == std::vector<T>(6, T(0)));
}

TEST_CASE("matrices of integers are not multiplied", "[model_kernels]") {
  const auto a = operand<std::int32_t>({1, 2, 3, 4});
  const TensorView view = a.view(Shape(2, 2));
  CHECK_THROWS_MATCHES(matmul(view, view, false, view, false), Unsupported,
                       says("matmul", "int32", "[2, 2]", test_stream().device().to_string()));
  CHECK(a.values() == std::vector<std::int32_t>{1, 2, 3, 4});
}

TEMPLATE_LIST_TEST_CASE("softmax cross entropy and its gradient", "[model_kernels]", FloatingTypes) {
  using T = TestType;
  const std::int64_t rows = GENERATE(1, 3, 70), columns = GENERATE(1, 10, 1025);
  const auto logits_values =
      elements<T>(rows * columns, [](std::int64_t i) { return static_cast<float>(i % 7) / 2 - 1; });
  const auto label = [&](std::int64_t row) { return row * 5 % columns; };
  const auto logits = operand<T>(logits_values);
  const auto labels = operand<std::int64_t>(elements<std::int64_t>(rows, label));
  const auto loss = result<T>(rows);
  const auto loss_alone = result<T>(rows);
  const auto gradient = result<T>(rows * columns);
  const Shape shape(rows, columns);
  softmax_cross_entropy(loss.view(), gradient.view(shape), logits.view(shape), labels.view());
  softmax_cross_entropy(loss_alone.view(), kNone, logits.view(shape), labels.view());
  CHECK(loss_alone.values() == loss.values());

  const auto losses = loss.values();
  const auto gradients = gradient.values();
  std::int64_t wrong = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto logit = [&](std::int64_t c) {
      return static_cast<double>(logits_values[static_cast<std::size_t>(r * columns + c)]);
    };
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += std::exp(logit(c));
    CHECK(close(losses[static_cast<std::size_t>(r)], std::log(sum) - logit(label(r)), kTolerance<T>));
    for (std::int64_t c = 0; c < columns; ++c) {
      const double expected = std::exp(logit(c)) / sum - (c == label(r) ? 1 : 0);
      wrong += !close(gradients[static_cast<std::size_t>(r * columns + c)], expected, kTolerance<T>);
    }
  }
  CHECK(wrong == 0);
  CHECK(loss.guards_intact());
  CHECK(gradient.guards_intact());

  softmax_cross_entropy(loss.view(), logits.view(shape), logits.view(shape), labels.view());
  CHECK(logits.values() == gradients);
}

TEMPLATE_TEST_CASE("softmax cross entropy of long rows, which end in the largest logit or begin with it",
                   "[model_kernels]", float, double, f16, f8e5m2) {
  using T = TestType;
  constexpr std::int64_t kRows = 3;
  const std::int64_t columns = GENERATE(8191, 16389, 70001);
  const bool grows = GENERATE(true, false);
  const std::size_t offset = GENERATE(0, 1) * sizeof(T);
  // The first half, or the last, is masked in the last row.
  const auto at = [&](std::int64_t i) {
    const std::int64_t row = i / columns, place = grows ? i % columns : columns - 1 - i % columns;
    if (row == kRows - 1 && place < columns / 2) return -std::numeric_limits<float>::infinity();
    return static_cast<float>(place * 8 / columns) / 2;
  };
  const auto logits_values = elements<T>(kRows * columns, at);
  const auto logits = operand<T>(logits_values, offset);
  const auto labels = operand<std::int64_t>({columns / 2, 0, columns / 2});
  const auto loss = result<T>(kRows), loss_alone = result<T>(kRows);
  const auto gradient = result<T>(kRows * columns);
  const Shape shape(kRows, columns);
  softmax_cross_entropy(loss.view(), gradient.view(shape), logits.view(shape), labels.view());
  softmax_cross_entropy(loss_alone.view(), kNone, logits.view(shape), labels.view());
  CHECK(loss_alone.values() == loss.values());

  const auto losses = loss.values();
  const auto gradients = gradient.values();
  const double tolerance = kTolerance<T> + 1e-12;  // what so many additions in double may lose
  std::int64_t wrong = 0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto logit = [&](std::int64_t c) {
      return static_cast<double>(logits_values[static_cast<std::size_t>(r * columns + c)]);
    };
    const std::int64_t label = r == 1 ? 0 : columns / 2;
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += std::exp(logit(c));
    CHECK(close(losses[static_cast<std::size_t>(r)], std::log(sum) - logit(label), tolerance));
    for (std::int64_t c = 0; c < columns; ++c)
      wrong += !close(gradients[static_cast<std::size_t>(r * columns + c)],
                      std::exp(logit(c)) / sum - (c == label ? 1 : 0), tolerance);
  }
  CHECK(wrong == 0);
  CHECK((loss.guards_intact() && gradient.guards_intact()));

  softmax_cross_entropy(loss.view(), logits.view(shape), logits.view(shape), labels.view());
  CHECK(logits.values() == gradients);
  CHECK(logits.guards_intact());
}

TEST_CASE("softmax cross entropy of long rows keeps NaN and infinity", "[model_kernels]") {
  constexpr std::int64_t kColumns = 9001;
  constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  // One logit of each row: all else is 0, or -infinity in the last two rows.
  const float odd[] = {kNan, kInfinity, -kInfinity, 1, -kInfinity, kNan};
  const auto logits = operand<float>(elements<float>(6 * kColumns, [&](std::int64_t i) {
    const std::int64_t row = i / kColumns;
    return i % kColumns == 8999 ? odd[row] : row < 4 ? 0.0f : -kInfinity;
  }));
  const auto labels = operand<std::int64_t>({1, 1, 1, 1, 1, 1});
  const auto loss = result<float>(6);
  const auto gradient = result<float>(6 * kColumns);
  const Shape shape(6, kColumns);
  softmax_cross_entropy(loss.view(), gradient.view(shape), logits.view(shape), labels.view());
  const auto losses = loss.values(), slopes = gradient.values();
  for (std::size_t row = 0; row < 6; ++row) {
    const bool is_number = row == 2 || row == 3;
    CAPTURE(row);
    CHECK(std::isnan(losses[row]) != is_number);
    CHECK(std::isnan(slopes[row * kColumns + 8999]) != is_number);
  }
}

TEMPLATE_LIST_TEST_CASE("softmax cross entropy of very large logits is finite", "[model_kernels]",
                        WideFloatingTypes) {
  using T = TestType;
  const auto logits = operand<T>({T(10000), T(10000), T(-10000)});
  const auto labels = operand<std::int64_t>({0});
  const auto loss = result<T>(1);
  const auto gradient = result<T>(3);
  softmax_cross_entropy(loss.view(), gradient.view(Shape(1, 3)), logits.view(Shape(1, 3)), labels.view());
  CHECK(close(loss.values()[0], std::log(2.0), kTolerance<T>));
  CHECK(gradient.values() == std::vector<T>{T(-0.5), T(0.5), T(0)});
}

TEMPLATE_LIST_TEST_CASE("P29 SGD, with and without momentum, Nesterov's and decay, in exact numbers",
                        "[model_kernels]", WideFloatingTypes) {
  using T = TestType;
  const std::int64_t n = GENERATE(1, 3, 33, 1025);
  const bool nesterov = GENERATE(false, true);
  const auto w_at = [](std::int64_t i) { return i % 4; };
  const auto v_at = [](std::int64_t i) { return i % 3 - 1; };
  const auto g_at = [](std::int64_t i) { return i % 5 - 2; };
  const auto w = operand<T>(elements<T>(n, w_at));
  const auto v = operand<T>(elements<T>(n, v_at));
  const auto g = operand<T>(elements<T>(n, g_at));
  const UpdateParameters parameters{
      .learning_rate = 0.25, .momentum = 0.5, .nesterov = nesterov, .weight_decay = 0.125};
  const auto gradient_at = [&](std::int64_t i) { return g_at(i) + 0.125 * w_at(i); };
  const auto speed_at = [&](std::int64_t i) { return 0.5 * v_at(i) + gradient_at(i); };

  test_kernels().sgd_update(w.view(), v.view(), g.view(), parameters, test_stream().handle());
  CHECK(v.values() == elements<T>(n, speed_at));
  CHECK(w.values() == elements<T>(n, [&](std::int64_t i) {
          return w_at(i) - 0.25 * (nesterov ? gradient_at(i) + 0.5 * speed_at(i) : speed_at(i));
        }));
  CHECK(g.values() == elements<T>(n, g_at));
  CHECK((w.guards_intact() && v.guards_intact()));

  const auto plain = operand<T>(elements<T>(n, w_at));
  test_kernels().sgd_update(plain.view(), kNone, g.view(), {.learning_rate = 0.25}, test_stream().handle());
  CHECK(plain.values() == elements<T>(n, [&](std::int64_t i) { return w_at(i) - 0.25 * g_at(i); }));
}

TEMPLATE_LIST_TEST_CASE("SGD on every floating dtype", "[model_kernels]", FloatingTypes) {
  using T = TestType;
  const std::int64_t n = GENERATE(1, 17, 2049);
  const auto w = operand<T>(elements<T>(n, [](std::int64_t i) { return i % 4; }));
  const auto v = operand<T>(elements<T>(n, [](std::int64_t) { return 0; }));
  const auto g = operand<T>(elements<T>(n, [](std::int64_t i) { return i % 3 - 1; }));
  test_kernels().sgd_update(w.view(), v.view(), g.view(), {.learning_rate = 0.5, .momentum = 0.5},
                            test_stream().handle());
  CHECK(v.values() == g.values());
  CHECK(w.values() == elements<T>(n, [](std::int64_t i) {
          return static_cast<float>(i % 4) - 0.5f * static_cast<float>(i % 3 - 1);
        }));
  CHECK((w.guards_intact() && v.guards_intact()));
}

TEMPLATE_LIST_TEST_CASE("Adam follows its formula, with decoupled decay, for several steps",
                        "[model_kernels]", FloatingTypes) {
  using T = TestType;
  const std::int64_t n = GENERATE(1, 31, 1025);
  const UpdateParameters base{
      .learning_rate = 0.125, .weight_decay = 0.5, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0.0625};
  const auto w = operand<T>(elements<T>(n, [](std::int64_t i) { return i % 4; }));
  const auto m = operand<T>(elements<T>(n, [](std::int64_t) { return 0; }));
  const auto v = operand<T>(elements<T>(n, [](std::int64_t) { return 0; }));
  for (int step = 1; step <= 3; ++step) {
    const auto before_w = w.values(), before_m = m.values(), before_v = v.values();
    const auto g_values = elements<T>(n, [&](std::int64_t i) { return (i + step) % 3 - 1; });
    const auto g = operand<T>(g_values);
    UpdateParameters parameters = base;
    parameters.step = step;
    test_kernels().adam_update(w.view(), m.view(), v.view(), g.view(), parameters, test_stream().handle());
    const auto after_w = w.values(), after_m = m.values(), after_v = v.values();
    int wrong = 0;
    for (std::size_t i = 0; i < after_w.size(); ++i) {
      const double slope = static_cast<double>(g_values[i]);
      const double first = 0.5 * static_cast<double>(before_m[i]) + 0.5 * slope;
      const double second = 0.75 * static_cast<double>(before_v[i]) + 0.25 * slope * slope;
      const double old = static_cast<double>(before_w[i]);
      const double speed =
          first / (1 - std::pow(0.5, step)) / (std::sqrt(second / (1 - std::pow(0.75, step))) + 0.0625);
      wrong += !close(after_m[i], first, kTolerance<T>) + !close(after_v[i], second, kTolerance<T>);
      wrong += !close(after_w[i], old - 0.125 * (speed + 0.5 * old), kTolerance<T>);
    }
    CHECK(wrong == 0);
  }
  CHECK((w.guards_intact() && m.guards_intact() && v.guards_intact()));
}

TEST_CASE("Adam takes the steps that TensorFlow takes in float32", "[model_kernels]") {
  const auto w = operand<float>({1, 2}), m = operand<float>({0, 0}), v = operand<float>({0, 0});
  const auto g = operand<float>({4, 1});
  const std::vector<std::vector<double>> steps{
      {0.90000075, 1.900001}, {0.8000018, 1.8000023}, {0.7000022, 1.7000029}};
  for (std::int64_t step = 1; step <= 3; ++step) {
    test_kernels().adam_update(
        w.view(), m.view(), v.view(), g.view(),
        {.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7, .step = step},
        test_stream().handle());
    const auto values = w.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(step, i, values[i]);
      // Its epsilon is added before the correction.
      CHECK(std::abs(static_cast<double>(values[i]) - steps[static_cast<std::size_t>(step - 1)][i]) < 1e-6);
    }
  }
}

TEST_CASE("betas that are 1 in float32 correct Adam's bias", "[model_kernels]") {
  const auto w = operand<float>({1}), m = operand<float>({0}), v = operand<float>({0}),
             g = operand<float>({4});
  for (std::int64_t step = 1; step <= 2; ++step)
    test_kernels().adam_update(
        w.view(), m.view(), v.view(), g.view(),
        {.learning_rate = 0.125, .beta1 = 1 - 1e-9, .beta2 = 1 - 1e-9, .epsilon = 1e-8, .step = step},
        test_stream().handle());
  CHECK(std::abs(w.values()[0] - 0.75f) < 1e-5f);
}

TEST_CASE("updates and losses of integers are refused before anything is written", "[model_kernels]") {
  const std::string device = test_stream().device().to_string();
  const auto w = operand<std::int32_t>({1, 2});
  const TensorView view = w.view();
  const auto labels = operand<std::int64_t>({0});
  auto& kernels = test_kernels();
  const auto stream = test_stream().handle();
  CHECK_THROWS_MATCHES(kernels.sgd_update(view, kNone, view, {}, stream), Unsupported,
                       says("sgd_update", "int32", "[2]", device));
  CHECK_THROWS_MATCHES(kernels.adam_update(view, view, view, view, {}, stream), Unsupported,
                       says("adam_update", "int32", device));
  CHECK_THROWS_MATCHES(kernels.softmax_cross_entropy(view, kNone, w.view(Shape(1, 2)), labels.view(), stream),
                       Unsupported, says("softmax_cross_entropy", "int32", device));
  CHECK(w.values() == std::vector<std::int32_t>{1, 2});
}

}  // namespace lockstep::test
