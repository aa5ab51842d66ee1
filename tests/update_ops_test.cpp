#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <lockstep/error.hpp>
#include <lockstep/update_ops.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using Catch::Matchers::WithinRel;
using lockstep::test::says;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor doubles(std::initializer_list<double> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

double item(const Tensor& t) { return t.item<double>(); }

}  // namespace

// Powers of two throughout, so that every step is exact.
TEMPLATE_LIST_TEST_CASE("sgd_update_ steps down the gradient", "[update_ops]", test::WideFloatingTypes) {
  using T = TestType;
  Tensor w = Tensor::from<T>({4, 8, -2}, {3});
  sgd_update_(w, Tensor::from<T>({2, -4, 0}, {3}), {}, {.learning_rate = 0.5});
  CHECK(w.to_vector<T>() == std::vector<T>{3, 10, -2});
  sgd_update_(w, Tensor::zeros({3}, dtype_of<T>), {}, {.learning_rate = 0.5, .weight_decay = 0.5});
  CHECK(w.to_vector<T>() == std::vector<T>{2.25, 7.5, -1.5});
}

TEST_CASE("sgd_update_ keeps a velocity, with Nesterov's look ahead or without", "[update_ops]") {
  const bool nesterov = GENERATE(false, true);
  Tensor w = doubles({1}), velocity = doubles({0});
  const SGDUpdateOptions options{.learning_rate = 0.25, .momentum = 0.5, .nesterov = nesterov};
  sgd_update_(w, doubles({4}), velocity, options);
  CHECK(item(velocity) == 4);
  CHECK(item(w) == (nesterov ? 1 - 0.25 * 6 : 0));
  w.fill_(0);
  sgd_update_(w, doubles({4}), velocity, options);
  CHECK(item(velocity) == 6);
  CHECK(item(w) == -0.25 * (nesterov ? 7 : 6));
}

TEST_CASE("adam_update_ follows algorithm 1 of the paper", "[update_ops]") {
  const double decay = GENERATE(0.0, 0.125);
  const AdamUpdateOptions options{
      .learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.01, .weight_decay = decay};
  const std::vector<double> gradients{3, -1, 0.5};
  Tensor w = doubles({2}), first = doubles({0}), second = doubles({0});
  double expected = 2, m = 0, v = 0;
  for (int step = 1; step <= 3; ++step) {
    const double g = gradients[static_cast<std::size_t>(step - 1)];
    adam_update_(w, doubles({g}), first, second, step, options);
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    expected -= 0.1 * (m / (1 - std::pow(0.8, step)) / (std::sqrt(v / (1 - std::pow(0.9, step))) + 0.01) +
                       decay * expected);
    // The kernel may round in another order.
    CHECK_THAT(item(w), WithinRel(expected, 1e-14));
    CHECK_THAT(item(first), WithinRel(m, 1e-14));
    CHECK_THAT(item(second), WithinRel(v, 1e-14));
  }
}

TEST_CASE("updates take any view as the gradient, also of what they write, and half precision",
          "[update_ops]") {
  Tensor w = doubles({1, 2});
  sgd_update_(w, doubles({4, 0, 8, 0}).reshape({2, 2}).narrow(1, 0, 1).reshape({2}), {},
              {.learning_rate = 0.25});
  CHECK(w.to_vector<double>() == std::vector<double>{0, 0});

  Tensor all = doubles({1, 2, 3}), front = all.slice(0, 2);
  sgd_update_(front, all.slice(1, 3), {}, {.learning_rate = 1});
  CHECK(all.to_vector<double>() == std::vector<double>{-1, -1, 3});

  Tensor half = Tensor::full({2}, f16(1.0f));
  sgd_update_(half, half.clone(), {}, {.learning_rate = 0.5});
  CHECK(half.to_vector<f16>() == std::vector<f16>(2, f16(0.5f)));

  Tensor none = Tensor::zeros({0});
  sgd_update_(none, Tensor::zeros({0}), {});
  adam_update_(none, Tensor::zeros({0}), Tensor::zeros({0}), Tensor::zeros({0}), 1);
  CHECK(none.shape() == Shape(0));
}

TEST_CASE("updates refuse tensors that do not fit, naming both, and write nothing", "[update_ops]") {
  Tensor w = doubles({1, 2}), m = doubles({0, 0}), v = doubles({0, 0});
  const Tensor g = doubles({1, 1});
  CHECK_THROWS_MATCHES(sgd_update_(w, doubles({1}), {}), InvalidArgument,
                       says("sgd_update_", "[2] float64", "[1] float64", "different shapes"));
  CHECK_THROWS_MATCHES(sgd_update_(w, g.cast(DType::f32), {}), InvalidArgument,
                       says("float64", "float32", "dtypes"));
  CHECK_THROWS_MATCHES(sgd_update_(w, g.to("CPU:1"), {}), InvalidArgument, says("CPU:0", "CPU:1"));
  CHECK_THROWS_MATCHES(adam_update_(w, g, doubles({0}), v, 1), InvalidArgument,
                       says("adam_update_", "[2] float64", "[1] float64"));
  CHECK_THROWS_MATCHES(adam_update_(w, g, m, m, 1), InvalidArgument, says("adam_update_", "share memory"));
  CHECK_THROWS_MATCHES(sgd_update_(w, g, w, {.momentum = 0.5}), InvalidArgument,
                       says("sgd_update_", "share memory"));
  Tensor counts = Tensor::zeros({2}, DType::i32);
  CHECK_THROWS_MATCHES(sgd_update_(counts, counts, {}), InvalidArgument, says("floating-point", "[2] int32"));
  Tensor strided = Tensor::zeros({2, 2}, DType::f64).narrow(1, 0, 1);
  CHECK_THROWS_MATCHES(sgd_update_(strided, Tensor::zeros({2, 1}, DType::f64), {}), InvalidArgument,
                       says("strided", "[2, 1] float64"));
  const double constant[2] = {1, 2};
  Tensor read_only = Tensor::view(constant, {2}, DType::f64, "CPU:0");
  CHECK_THROWS_MATCHES(sgd_update_(read_only, g, {}), InvalidArgument, says("sgd_update_", "constant"));
  CHECK(w.to_vector<double>() == std::vector<double>{1, 2});
  CHECK(m.to_vector<double>() == std::vector<double>{0, 0});
}

TEST_CASE("updates refuse hyper-parameters out of range", "[update_ops]") {
  Tensor w = doubles({1});
  const Tensor g = doubles({1});
  const auto sgd = [&](const SGDUpdateOptions& options) { sgd_update_(w, g, {}, options); };
  CHECK_THROWS_MATCHES(sgd({.learning_rate = -1}), InvalidArgument,
                       says("sgd_update_", "learning_rate is -1"));
  CHECK_THROWS_MATCHES(sgd({.learning_rate = kNan}), InvalidArgument, says("learning_rate is nan"));
  CHECK_THROWS_MATCHES(sgd({.weight_decay = -1}), InvalidArgument, says("weight_decay is -1"));
  CHECK_THROWS_MATCHES(sgd({.momentum = 1}), InvalidArgument, says("momentum is 1", "[0, 1)"));
  CHECK_THROWS_MATCHES(sgd({.nesterov = true}), InvalidArgument, says("nesterov without momentum"));
  CHECK_THROWS_MATCHES(sgd({.momentum = 0.5}), InvalidArgument, says("momentum is 0.5", "velocity is empty"));
  CHECK_THROWS_MATCHES(sgd_update_(w, g, doubles({0})), InvalidArgument,
                       says("momentum is 0", "there is a velocity"));

  const auto adam = [&](std::int64_t step, const AdamUpdateOptions& options) {
    adam_update_(w, g, doubles({0}), doubles({0}), step, options);
  };
  CHECK_THROWS_MATCHES(adam(1, {.learning_rate = -1}), InvalidArgument,
                       says("adam_update_", "learning_rate"));
  CHECK_THROWS_MATCHES(adam(1, {.beta1 = 1}), InvalidArgument, says("beta1 is 1"));
  CHECK_THROWS_MATCHES(adam(1, {.beta2 = -0.5}), InvalidArgument, says("beta2 is -0.5"));
  CHECK_THROWS_MATCHES(adam(1, {.epsilon = 0}), InvalidArgument, says("epsilon is 0"));
  CHECK_THROWS_MATCHES(adam(1, {.weight_decay = kNan}), InvalidArgument, says("weight_decay is nan"));
  CHECK_THROWS_MATCHES(adam(0, {}), InvalidArgument, says("step is 0", "from 1"));
  CHECK(item(w) == 1);
}
