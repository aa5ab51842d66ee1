#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/captured_stderr.hpp"

using namespace lockstep;
using optim::Gradient;
using Kind = ReduceValue::Kind;

TEST_CASE("a gradient is anything that can be one", "[optim][gradient]") {
  const Tensor dense = Tensor::zeros({2});
  const IndexedSlices sparse{Tensor::zeros({1, 2}), Tensor::from<std::int64_t>({0}, {1}), {3, 2}};
  const auto kind = [](const Gradient& gradient) { return gradient.value()->kind(); };
  REQUIRE(kind(dense) == Kind::plain);
  REQUIRE(kind(PerReplica(std::vector{dense, Tensor::zeros({2})})) == Kind::per_replica);
  REQUIRE(kind(Mirrored(std::vector{dense, dense})) == Kind::mirrored);
  REQUIRE(kind(sparse) == Kind::plain);
  REQUIRE(Gradient(sparse).value()->is_sparse());
  REQUIRE(kind(PerReplica(std::vector{sparse})) == Kind::per_replica);
  REQUIRE(kind(Mirrored(std::vector{sparse})) == Kind::mirrored);
  REQUIRE(Gradient(std::nullopt).is_nothing());
  REQUIRE(Gradient(std::optional<Tensor>()).is_nothing());
  REQUIRE_FALSE(Gradient(std::optional(dense)).is_nothing());
  REQUIRE(Gradient(std::optional(sparse)).value()->is_sparse());
  STATIC_REQUIRE_FALSE(std::is_convertible_v<float, Gradient>);
}

TEST_CASE("the forms in which apply_gradients is called", "[optim][gradient]") {
  namespace ls = lockstep;
  Variable w(Tensor::scalar(1.0f)), v(Tensor::zeros({2, 1}));
  const Tensor grad = Tensor::scalar(1.0f);
  const IndexedSlices rows{Tensor::ones({1, 1}), Tensor::from<std::int64_t>({1}, {1}), {2, 1}};
  std::optional<Tensor> maybe = grad;
  ls::optim::SGD({.learning_rate = 0.5f}).apply_gradients({{grad, w}});
  ls::optim::SGD({.learning_rate = 0.5}).apply_gradients({{maybe, w}, {rows, v}});
  test::captured_stderr([&] {  // the warning
    ls::optim::SGD({.learning_rate = 1})
        .apply_gradients({{Mirrored(std::vector{grad}), w}, {std::nullopt, v}});
  });
  ls::optim::SGD().apply_gradients({});
  const std::vector<ls::optim::GradientAndVariable> list{{grad, w}};
  ls::optim::SGD({.learning_rate = 1}).apply_gradients(list, {.bytes_per_pack = 1});
  REQUIRE(w.value().item<float>() == -2);
  REQUIRE(v.value().to_vector<float>() == std::vector<float>{0, -0.5f});
}
