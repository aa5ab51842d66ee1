#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/ops.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/tensor.hpp>

#include "support/exact_quotient.hpp"
#include "support/operands.hpp"

namespace lockstep::test {
namespace {

constexpr std::int64_t kRows = 7, kColumns = 1000;

template <class T>
std::vector<T> any_numbers() {
  std::mt19937_64 random(1);
  std::vector<T> values;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) values.push_back(static_cast<T>(random() >> i % 13));
  return values;
}

template <class T>
std::vector<double> exact_means(const std::vector<T>& values, std::int64_t count) {
  std::vector<double> means;
  for (std::int64_t c = 0; c < kColumns; ++c) {
    Int128 sum = 0;
    for (std::int64_t r = 0; r < kRows; ++r) sum += values[static_cast<std::size_t>(r * kColumns + c)];
    means.push_back(exact_quotient(sum * (count / kRows), count));
  }
  return means;
}

}  // namespace

TEMPLATE_TEST_CASE("P07 means of 64-bit integers along an axis are rounded once", "[reduce]", std::int64_t,
                   std::uint64_t) {
  const std::vector<TestType> values = any_numbers<TestType>();
  const Tensor in = Tensor::from(values, {kRows, kColumns}, TestBackend::device());
  CHECK(mean(in, 0).to_vector<double>() == exact_means(values, kRows));
}

TEMPLATE_TEST_CASE("P07 means of 64-bit integers over replicas along an axis are rounded once", "[reduce]",
                   std::int64_t, std::uint64_t) {
  MirroredStrategy strategy(TestBackend::devices(2));
  const std::vector<TestType> values = any_numbers<TestType>();
  const Tensor in = Tensor::from(values, {kRows, kColumns}, strategy.extended().worker_devices()[0]);
  const Tensor means = strategy.reduce(ReduceOp::mean, in, 0);
  CHECK(means.to_vector<double>() == exact_means(values, 2 * kRows));
}

TEST_CASE("P07 the mean of many 32-bit integers is rounded once, where a double does not hold their sum",
          "[reduce]") {
  const std::int64_t count = (std::int64_t{1} << 22) + 3;
  constexpr auto kLargest = std::numeric_limits<std::int32_t>::max();
  Tensor in = Tensor::full({count}, kLargest, DType::i32, TestBackend::device());
  in.slice(0, 1).fill_(kLargest - 2);
  const Int128 sum = Int128{count} * kLargest - 2;  // odd, and above 2^53
  for (const std::int64_t divisor : {std::int64_t{3}, std::int64_t{17}, std::int64_t{50}, count})
    CHECK(reduce_axes(ReduceOp::sum, in, {}, DType::f64, static_cast<double>(divisor)).item<double>() ==
          exact_quotient(sum, divisor));
}

TEST_CASE("the mean of doubles whose sum overflows is as good as that of small ones", "[reduce]") {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> between(1, 2);
  constexpr std::int64_t kCount = 50000;
  std::vector<double> values;
  long double sum = 0;
  for (std::int64_t i = 0; i < kCount; ++i) sum += values.emplace_back(between(random));
  const Tensor small = Tensor::from(values, {kCount}, TestBackend::device());
  constexpr double kLarge = 0x1p1022;
  const Tensor large = small * kLarge;
  const auto error = [&](double mean) {
    return std::abs(static_cast<double>(static_cast<long double>(mean) * kCount / sum - 1));
  };
  const double small_error = error(mean(small).item<double>());
  const double large_error = error(mean(large).item<double>() / kLarge);
  CHECK(large_error <= small_error + 2 * std::numeric_limits<double>::epsilon());
}

}  // namespace lockstep::test
