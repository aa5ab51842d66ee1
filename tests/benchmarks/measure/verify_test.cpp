#include "measure/verify.hpp"

#include <algorithm>
#include <concepts>
#include <limits>
#include <set>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "report/names.hpp"

using namespace lockstep;
using bench::Pattern;

namespace {

constexpr std::int64_t kCount = 257;

// Contributions of all ranks, combined in rank order by the rules of the host backend: small floats in float,
// rounded once.
template <class T>
std::vector<T> reduce(const Pattern& pattern) {
  using Accumulator =
      std::conditional_t<std::integral<T>, T, std::conditional_t<std::same_as<T, double>, double, float>>;
  std::vector<T> result(kCount);
  std::vector<Accumulator> totals(kCount);
  for (int rank = 0; rank < pattern.num_ranks; ++rank) {
    std::vector<T> values(kCount);
    bench::fill_contribution(pattern, rank, values.data(), 0, kCount);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<Accumulator>(values[i]);
      Accumulator& total = totals[i];
      if (rank == 0)
        total = value;
      else if (pattern.op == ReduceOp::product)
        total = static_cast<Accumulator>(total * value);
      else if (pattern.op == ReduceOp::min)
        total = std::min(total, value);
      else if (pattern.op == ReduceOp::max)
        total = std::max(total, value);
      else
        total = static_cast<Accumulator>(total + value);
    }
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (pattern.op == ReduceOp::mean)
      totals[i] = static_cast<Accumulator>(totals[i] / static_cast<Accumulator>(pattern.num_ranks));
    result[i] = static_cast<T>(totals[i]);
  }
  return result;
}

template <class T>
std::int64_t count_wrong(const Pattern& pattern, const std::vector<std::vector<T>>& results) {
  std::vector<const void*> pointers;
  for (const auto& result : results) pointers.push_back(result.data());
  return bench::count_wrong(pattern, pointers, 0, kCount);
}

// nccl-tests has no booleans, and std::vector has its own idea of them.
template <class F>
void with_type(DType dtype, const F& f) {
  dispatch(dtype, [&]<class T>() {
    if constexpr (!std::same_as<T, bool>) f.template operator()<T>();
  });
}

bool is_defined(ReduceOp op, DType dtype) { return op != ReduceOp::mean || is_floating(dtype); }

}  // namespace

TEST_CASE("a right result has no wrong values, for every dtype, operator and number of ranks",
          "[benchmarks]") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 7, 64);
  for (const DType dtype : bench::all_dtypes()) {
    for (const ReduceOp op : bench::all_ops()) {
      if (!is_defined(op, dtype)) continue;
      INFO(dtype << " " << op << " on " << num_ranks);
      const Pattern pattern{dtype, op, num_ranks, 5};
      with_type(dtype, [&]<class T>() { CHECK(count_wrong<T>(pattern, {reduce<T>(pattern)}) == 0); });
    }
  }
}

TEST_CASE("a planted error is counted, in whichever rank's result it is", "[benchmarks]") {
  for (const DType dtype : bench::all_dtypes()) {
    INFO(dtype);
    with_type(dtype, [&]<class T>() {
      const Pattern pattern{dtype, ReduceOp::sum, 3, 1};
      std::vector<std::vector<T>> results(3, reduce<T>(pattern));
      results[2][kCount - 1] = static_cast<T>(static_cast<double>(results[2][kCount - 1]) + 1);
      CHECK(count_wrong(pattern, results) == 1);
      results[0][0] = static_cast<T>(static_cast<double>(results[0][0]) + 1);
      CHECK(count_wrong(pattern, results) == 2);
    });
  }
}

TEST_CASE("a NaN is a wrong value", "[benchmarks]") {
  const Pattern pattern{DType::f32, ReduceOp::max, 2, 0};
  auto result = reduce<float>(pattern);
  result[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(count_wrong<float>(pattern, {result}) == 1);
}

TEST_CASE("leaving out a rank, or taking one twice, is noticed", "[benchmarks]") {
  const auto op = GENERATE(ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::mean);
  const Pattern pattern{DType::f32, op, 4, 2};
  for (int left_out = 0; left_out < 4; ++left_out) {
    INFO(op << " without rank " << left_out);
    std::vector<float> first(kCount), other(kCount), result(kCount);
    bench::fill_contribution(pattern, left_out == 0 ? 1 : 0, first.data(), 0, kCount);
    result = first;
    for (int rank = 0; rank < 4; ++rank) {
      // rank 0, or 1 when that is left out, is counted twice
      if (rank == left_out) continue;
      bench::fill_contribution(pattern, rank, other.data(), 0, kCount);
      for (std::size_t i = 0; i < result.size(); ++i) {
        if (op == ReduceOp::product)
          result[i] *= other[i];
        else if (op == ReduceOp::min)
          result[i] = std::min(result[i], other[i]);
        else if (op == ReduceOp::max)
          result[i] = std::max(result[i], other[i]);
        else
          result[i] += other[i];
      }
    }
    if (op == ReduceOp::mean)
      for (float& value : result) value /= 4;
    CHECK(count_wrong<float>(pattern, {result}) > kCount / 20);
  }
}

TEST_CASE("contributions differ from element to element, rank to rank and seed to seed", "[benchmarks]") {
  const auto values = [](int rank, std::uint64_t seed) {
    std::vector<float> data(kCount);
    bench::fill_contribution({DType::f32, ReduceOp::sum, 4, seed}, rank, data.data(), 0, kCount);
    return data;
  };
  const auto first = values(0, 0);
  CHECK(std::set<float>(first.begin(), first.end()).size() > 4);
  CHECK(first != values(1, 0));
  CHECK(first != values(0, 1));
}

TEST_CASE("ranges of elements are filled and checked by themselves", "[benchmarks]") {
  const Pattern pattern{DType::f32, ReduceOp::sum, 1, 0};
  std::vector<float> whole(kCount), parts(kCount, -100);
  bench::fill_contribution(pattern, 0, whole.data(), 0, kCount);
  bench::fill_contribution(pattern, 0, parts.data() + 10, 10, 20);
  CHECK(parts[9] == -100);
  CHECK(parts[20] == -100);
  CHECK(std::equal(whole.begin() + 10, whole.begin() + 20, parts.begin() + 10));
  const void* pointer = parts.data() + 10;
  CHECK(bench::count_wrong(pattern, std::span(&pointer, 1), 10, 20) == 0);
  pointer = parts.data() + 8;
  CHECK(bench::count_wrong(pattern, std::span(&pointer, 1), 8, 20) == 2);
}

TEST_CASE("a copy is right only of the rank and the elements that were sent", "[benchmarks]") {
  for (const DType dtype : bench::all_dtypes()) {
    INFO(dtype);
    with_type(dtype, [&]<class T>() {
      const Pattern pattern{.dtype = dtype, .seed = 3};
      std::vector<T> message(kCount);
      bench::fill_message(pattern, 2, message.data(), 0, kCount);
      const void* pointer = message.data();
      const auto wrong = [&](int rank, std::int64_t begin, std::uint64_t seed) {
        return bench::count_wrong_copies({.dtype = dtype, .seed = seed}, rank, std::span(&pointer, 1), begin,
                                         begin + kCount);
      };
      CHECK(wrong(2, 0, 3) == 0);
      // of 15 values two agree by chance once in 15 times
      CHECK(wrong(1, 0, 3) > kCount / 2);
      CHECK(wrong(2, 1, 3) > kCount / 2);
      CHECK(wrong(2, 0, 4) > kCount / 2);
      message[7] = static_cast<T>(static_cast<double>(message[7]) + 1);
      CHECK(wrong(2, 0, 3) == 1);
      pointer = message.data() + 7;
      CHECK(bench::count_wrong_copies(pattern, 2, std::span(&pointer, 1), 7, 9) == 1);
    });
  }
}
