#include "host/collectives/reduce_range.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <hwy/highway.h>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

namespace ls = lockstep;

namespace {

// Takes the code of one instruction set while it lives.
class OnlyTarget {
 public:
  explicit OnlyTarget(std::int64_t target) { set(target); }
  ~OnlyTarget() { set(0); }  // 0: all that the machine has
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;

 private:
  static void set(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  }
};

// Those that reduce_range is compiled for and the machine has.
std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> found{HWY_STATIC_TARGET};
  for (const std::int64_t target : {HWY_AVX2, HWY_AVX3})
    if ((hwy::SupportedTargets() & target) != 0 && target != HWY_STATIC_TARGET) found.push_back(target);
  return found;
}

// One element combined as the header says.
template <class T>
T combined(ls::ReduceOp op, const std::vector<std::vector<T>>& sources, std::size_t i) {
  float value = sources[0][i];
  double exact = value;  // as good as: for means whose sum is too large for a float
  for (std::size_t r = 1; r < sources.size(); ++r) {
    const float next = sources[r][i];
    exact += static_cast<double>(next);
    switch (op) {
      case ls::ReduceOp::sum:
      case ls::ReduceOp::mean: value += next; break;
      case ls::ReduceOp::product: value *= next; break;
      case ls::ReduceOp::min: value = next < value || next != next ? next : value; break;
      case ls::ReduceOp::max: value = next > value || next != next ? next : value; break;
    }
  }
  const auto n = static_cast<float>(sources.size());
  if (op == ls::ReduceOp::mean)
    value = std::isinf(value) ? static_cast<float>(exact / static_cast<double>(n)) : value / n;
  return static_cast<T>(value);
}

bool is_nan(float value) { return value != value; }

}  // namespace

TEMPLATE_TEST_CASE("16-bit floats are combined to the same bits by every instruction set", "[host]", ls::f16,
                   ls::bf16) {
  using T = TestType;
  const std::int64_t target = GENERATE(Catch::Generators::from_range(targets()));
  const auto op = GENERATE(ls::ReduceOp::sum, ls::ReduceOp::mean, ls::ReduceOp::min, ls::ReduceOp::max,
                           ls::ReduceOp::product);
  const std::size_t num_sources = GENERATE(1u, 2u, 3u, 4u, 9u);
  const bool in_place = GENERATE(false, true);
  CAPTURE(hwy::TargetName(target), op, num_sources, in_place);
  const OnlyTarget only(target);

  // Every bit pattern, in an order of its own for each source; the length is odd.
  constexpr std::size_t kCount = 65536 + 13;
  std::mt19937 random(1);
  std::vector<std::vector<T>> sources(num_sources, std::vector<T>(kCount));
  for (auto& source : sources)
    for (std::size_t i = 0; i < kCount; ++i)
      source[i] = T::from_bits(static_cast<std::uint16_t>(&source == &sources[0] ? i : random()));
  std::vector<T> expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) expected[i] = combined(op, sources, i);

  std::vector<std::vector<T>> results = in_place ? sources : std::vector(num_sources, std::vector<T>(kCount));
  std::vector<const void*> from;
  std::vector<void*> to;
  for (std::size_t r = 0; r < num_sources; ++r) {
    from.push_back(in_place ? results[r].data() : sources[r].data());
    to.push_back(results[r].data());
  }
  ls::host::reduce_range(op, ls::dtype_of<T>, kCount, from, to, /*streaming=*/!in_place);

  std::size_t num_wrong = 0, num_apart = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    // Which of two NaNs comes through is open.
    const bool both_nan = is_nan(expected[i]) && is_nan(results[0][i]);
    num_wrong += !both_nan && results[0][i].bits != expected[i].bits;
    for (const auto& result : results) num_apart += result[i].bits != results[0][i].bits;
  }
  CHECK(num_wrong == 0);
  CHECK(num_apart == 0);
}

TEMPLATE_TEST_CASE("means whose sums are too large are finite", "[host]", float, double) {
  using T = TestType;
  const std::int64_t target = GENERATE(Catch::Generators::from_range(targets()));
  const std::size_t num_sources = GENERATE(1u, 2u, 3u, 4u, 5u);
  const bool in_place = GENERATE(false, true);
  const std::size_t count = GENERATE(1u, 7u, 33u, 2500u);
  CAPTURE(hwy::TargetName(target), num_sources, in_place, count);
  const OnlyTarget only(target);

  // Among small numbers a few large ones; of these the first is infinite in one source, the second NaN.
  constexpr T kMax = std::numeric_limits<T>::max();
  std::vector<std::vector<T>> sources(num_sources, std::vector<T>(count));
  std::vector<T> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    long double sum = 0;
    T plain = 0;
    for (std::size_t r = 0; r < num_sources; ++r) {
      T value = static_cast<T>((i * 7 + r * 3) % 23);
      if (i % 11 == 6) value = kMax / static_cast<T>(r + 1);
      if (i == 17 && r + 1 == num_sources) value = std::numeric_limits<T>::infinity();
      if (i == 39 && r + 1 == num_sources) value = -std::numeric_limits<T>::infinity();
      if (i == 28 && r + 1 == num_sources) value = std::numeric_limits<T>::quiet_NaN();
      sources[r][i] = value;
      sum += value;
      plain = r == 0 ? value : plain + value;
    }
    const T mean = plain / static_cast<T>(num_sources);
    expected[i] = std::isfinite(mean) ? mean : static_cast<T>(sum / static_cast<long double>(num_sources));
  }

  std::vector<std::vector<T>> results = in_place ? sources : std::vector(num_sources, std::vector<T>(count));
  std::vector<const void*> from;
  std::vector<void*> to;
  for (std::size_t r = 0; r < num_sources; ++r) {
    from.push_back(in_place ? results[r].data() : sources[r].data());
    to.push_back(results[r].data());
  }
  const auto dtype = ls::dtype_of<T>;
  ls::host::reduce_range(ls::ReduceOp::mean, dtype, static_cast<std::int64_t>(count), from, to, !in_place);
  std::size_t num_wrong = 0;
  for (const auto& result : results)
    for (std::size_t i = 0; i < count; ++i) {
      const bool both_nan = std::isnan(expected[i]) && std::isnan(result[i]);
      const bool is_large = i % 11 == 6 && std::isfinite(expected[i]);
      num_wrong += !both_nan && (is_large ? std::abs(result[i] - expected[i]) > expected[i] * T(1e-6)
                                          : result[i] != expected[i]);
    }
  CHECK(num_wrong == 0);
}

TEMPLATE_TEST_CASE("streaming stores write what ordinary ones do, and no more, wherever destinations begin",
                   "[host]", std::int8_t, float, double, std::int64_t, ls::bf16) {
  using T = TestType;
  const std::int64_t target = GENERATE(Catch::Generators::from_range(targets()));
  const auto op = GENERATE(ls::ReduceOp::sum, ls::ReduceOp::max);
  const std::size_t num_sources = GENERATE(1u, 2u, 3u, 4u, 5u);
  const std::size_t num_destinations = GENERATE_COPY(std::size_t{1}, num_sources);
  CAPTURE(hwy::TargetName(target), op, num_sources, num_destinations);
  const OnlyTarget only(target);

  constexpr std::size_t kMost = 5000, kMargin = 64;
  std::vector<std::vector<T>> sources(num_sources);
  std::vector<const void*> from;
  for (std::size_t r = 0; r < num_sources; ++r) {
    for (std::size_t i = 0; i < kMost; ++i) sources[r].push_back(static_cast<T>((i * 7 + r * 3) % 23));
    from.push_back(sources[r].data());
  }
  std::size_t num_wrong = 0;
  for (const std::size_t count : {1u, 31u, 64u, 257u, 1000u, 5000u}) {
    for (const std::size_t offset : {0u, 1u, 5u, 16u}) {
      const auto reduce = [&](bool streaming) {
        std::vector<std::vector<T>> results(num_destinations);
        std::vector<void*> to;
        for (std::size_t r = 0; r < num_destinations; ++r) {
          results[r].assign(kMost + kMargin, static_cast<T>(99));
          to.push_back(results[r].data() + offset * (r + 1) % kMargin);
        }
        to.insert(to.begin(), nullptr);
        const bool is_given = num_destinations == num_sources;  // else the first destination is none
        const auto destinations = std::span<void* const>(to).subspan(is_given ? 1 : 0);
        ls::host::reduce_range(op, ls::dtype_of<T>, static_cast<std::int64_t>(count), from, destinations,
                               streaming);
        return results;
      };
      const auto expected = reduce(false), streamed = reduce(true);
      for (std::size_t r = 0; r < num_destinations; ++r)
        num_wrong += !std::ranges::equal(expected[r], streamed[r], [](T a, T b) {
          return static_cast<float>(a) == static_cast<float>(b);
        });
    }
  }
  CHECK(num_wrong == 0);
}
