#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/stream.hpp>

#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using Catch::Matchers::WithinRel;
using lockstep::optim::clip_by_global_norm;
using lockstep::optim::global_norm;
using lockstep::test::says;

namespace {

template <Element T>
Tensor row(std::initializer_list<T> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

template <class Tensors>
bool all_nan(const Tensors& tensors) {
  for (const Tensor& tensor : tensors)
    for (const double value : tensor.cast(DType::f64).template to_vector<double>())
      if (!std::isnan(value)) return false;
  return true;
}

}  // namespace

TEST_CASE("global_norm is over all elements of all tensors, of all dtypes", "[optim][clip]") {
  // 1 + 4 + 4 + 16 + 144 = 169
  REQUIRE(global_norm({row<float>({1, 2}), row<double>({2}), row<float>({}),
                       Tensor::scalar(4.0f).cast(DType::bf16), row<float>({-12}).cast(DType::f16)})
              .item<double>() == 13);
  REQUIRE(global_norm({}).item<double>() == 0);
  // Squares of float16 are added in float.
  REQUIRE(global_norm({row<float>({30000, 40000}).cast(DType::f16)}).item<double>() ==
          std::sqrt(30000.0 * 30000.0 + 40000.0 * 40000.0));
  REQUIRE_THROWS_MATCHES(global_norm({row<std::int64_t>({1})}), InvalidArgument,
                         says("global_norm", "int64"));
}

TEST_CASE("clip_by_global_norm shortens all gradients by one factor", "[optim][clip]") {
  const Tensor a = row<float>({3, 0}), b = row<double>({4});
  const auto [clipped, norm] = clip_by_global_norm({a, b}, 2.5);
  REQUIRE(norm.item<double>() == 5);
  REQUIRE(clipped[0].to_vector<float>() == std::vector<float>{1.5f, 0});
  REQUIRE(clipped[1].to_vector<double>() == std::vector<double>{2});
  REQUIRE(a.to_vector<float>() == std::vector<float>{3, 0});
  REQUIRE(b.to_vector<double>() == std::vector<double>{4});
}

TEST_CASE("clip_by_global_norm leaves short gradients as they are, bit for bit", "[optim][clip]") {
  const std::vector<float> values{0.1f, -0.7f, 1e-30f, 0.3f};
  for (const double limit : {0.8, 1.0, 1e30}) {
    const auto [clipped, norm] = clip_by_global_norm({Tensor::from(values, {4})}, limit);
    REQUIRE(clipped[0].to_vector<float>() == values);
    REQUIRE_THAT(norm.item<double>(), WithinRel(std::sqrt(0.59), 1e-7));
  }
  const auto [exact, norm] = clip_by_global_norm({row<float>({3, 4})}, 5);
  REQUIRE(exact[0].to_vector<float>() == std::vector<float>{3, 4});
  const auto [zeros, zero] = clip_by_global_norm({row<float>({0, 0})}, 5);
  REQUIRE(zeros[0].to_vector<float>() == std::vector<float>{0, 0});
  REQUIRE(zero.item<double>() == 0);
}

TEST_CASE("clip_by_global_norm keeps its precision at extremes", "[optim][clip]") {
  const auto [tiny, norm] = clip_by_global_norm({row<double>({3e100, 4e100})}, 1e-100);
  REQUIRE_THAT(tiny[0].to_vector<double>()[0], WithinRel(0.6e-100, 1e-15));
  // 6e-8 is hardly a float16, so the factor is not rounded to one.
  const auto [half, half_norm] = clip_by_global_norm({row<float>({60000, 0}).cast(DType::f16)}, 1.0);
  REQUIRE(half[0].dtype() == DType::f16);
  REQUIRE(half[0].cast(DType::f32).to_vector<float>() == std::vector<float>{1, 0});
}

TEST_CASE("clip_by_global_norm: a norm that is no number makes every gradient NaN", "[optim][clip]") {
  const float bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                             1e30f);  // whose square overflows
  const auto [clipped, norm] =
      clip_by_global_norm({row<float>({1, 2}), row<float>({bad, 1}), row<double>({1})}, 2);
  REQUIRE(all_nan(clipped));
  REQUIRE_FALSE(std::isfinite(norm.item<double>()));
}

TEST_CASE("clip_by_global_norm clips each component of mirrored gradients by itself", "[optim][clip]") {
  const Mirrored a(std::vector{Tensor::full({2}, 3.0f, DType::f32, "CPU:0"),
                               Tensor::full({2}, 3.0f, DType::f32, "CPU:1")});
  const Mirrored b(
      std::vector{Tensor::full({}, 4.0f, DType::f32, "CPU:0"), Tensor::full({}, 4.0f, DType::f32, "CPU:1")});
  const auto [clipped, norm] = clip_by_global_norm(std::vector{a, b}, 1.0);
  REQUIRE(norm.size() == 2);
  REQUIRE(norm[1].device() == Device("CPU:1"));
  REQUIRE(clipped[1][1].device() == Device("CPU:1"));
  for (int k = 0; k < 2; ++k)
    REQUIRE(clipped[static_cast<std::size_t>(k)][0].to_vector<float>() ==
            clipped[static_cast<std::size_t>(k)][1].to_vector<float>());
  REQUIRE_THAT(clipped[1][0].item<float>(), WithinRel(4 / std::sqrt(34.0f), 1e-6f));
  REQUIRE(clip_by_global_norm(std::vector<Mirrored<Tensor>>(), 1.0).first.empty());
  REQUIRE_THROWS_MATCHES(
      clip_by_global_norm(std::vector{a, Mirrored(std::vector{Tensor::scalar(1.0f)})}, 1.0), InvalidArgument,
      says("a mirrored gradient has 1 components, the first one 2"));
}

TEST_CASE("clip_by_global_norm refuses what is no length", "[optim][clip]") {
  const double bad =
      GENERATE(0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity());
  REQUIRE_THROWS_MATCHES(clip_by_global_norm({row<float>({1})}, bad), InvalidArgument,
                         says("clip_by_global_norm: clip_norm is", "above 0"));
}

TEST_CASE("clip_by_global_norm waits for no device", "[optim][clip]") {
  test::LazyDevice device;
  const Stream stream(device);
  const StreamScope scope(stream);
  const Tensor g = Tensor::full({2}, 3.0f, DType::f32, device.device());
  const auto [clipped, norm] = clip_by_global_norm({g, g}, 3.0);
  REQUIRE_FALSE(stream.is_complete());
  REQUIRE(clipped[1].to_vector<float>() == std::vector<float>{1.5f, 1.5f});
  REQUIRE(norm.item<double>() == 6);
}
