#include "input/distribution/splitting.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"
#include "support/parts.hpp"

using namespace lockstep;
using detail::BalancedSplitIterator;
using detail::BatchSplitIterator;
using detail::SplitRule;
using test::all_parts;
using test::batch_list;
using test::batches_of;
using test::on_host;
using test::says;
using test::sequence;
using test::Values;
using test::vector_of;

namespace {

Values sizes(BatchSplit split, std::int64_t num_rows, std::size_t num_slices) {
  return SplitRule{split, num_slices, {}}.sizes(num_rows);
}
Values ceiling(std::int64_t num_rows, std::size_t num_slices) {
  return sizes(BatchSplit::ceiling, num_rows, num_slices);
}
Values weighted(std::int64_t num_rows, const std::vector<double>& weights) {
  return SplitRule{BatchSplit::weighted, weights.size(), weights}.sizes(num_rows);
}

}  // namespace

TEST_CASE("P18 ceiling slices are full while there are rows", "[input][host]") {
  CHECK(ceiling(32, 3) == Values{11, 11, 10});
  CHECK(ceiling(9, 4) == Values{3, 3, 3, 0});
  CHECK(ceiling(4, 3) == Values{2, 2, 0});
  CHECK(ceiling(5, 4) == Values{2, 2, 1, 0});
  CHECK(ceiling(6, 4) == Values{2, 2, 2, 0});
  CHECK(ceiling(7, 3) == Values{3, 3, 1});
  CHECK(ceiling(1, 4) == Values{1, 0, 0, 0});
  CHECK(ceiling(0, 2) == Values{0, 0});
  CHECK(ceiling(7, 1) == Values{7});
}

TEST_CASE("slices have the closed form for every number of rows", "[input][host]") {
  const std::int64_t num_rows = GENERATE(range(0, 66)), n = GENERATE(1, 2, 3, 4, 7);
  const auto num_slices = static_cast<std::size_t>(n);
  const Values full_first = ceiling(num_rows, num_slices);
  const Values balanced = sizes(BatchSplit::balanced, num_rows, num_slices);
  REQUIRE(full_first.size() == num_slices);
  REQUIRE(balanced.size() == num_slices);
  const std::int64_t most = (num_rows + n - 1) / n;
  for (std::int64_t i = 0; i < n; ++i) {
    CHECK(full_first[static_cast<std::size_t>(i)] == std::clamp<std::int64_t>(num_rows - i * most, 0, most));
    CHECK(balanced[static_cast<std::size_t>(i)] == (num_rows + n - 1 - i) / n);
  }
  CHECK(weighted(num_rows, std::vector<double>(num_slices, 2.5)) == balanced);
}

TEST_CASE("weighted slices are dealt by the largest remainder", "[input][host]") {
  CHECK(weighted(8, {3, 1}) == Values{6, 2});
  CHECK(weighted(10, {1, 2, 4}) == Values{1, 3, 6});  // 1.43, 2.86, 5.71: the second is next, then the third
  CHECK(weighted(10, {0.6, 0.3, 0.1}) == Values{6, 3, 1});
  CHECK(weighted(7, {1, 1, 2}) == Values{2, 2, 3});  // 1.75, 1.75, 3.5
  CHECK(weighted(5, {1, 1}) == Values{3, 2});        // of equal remainders the first
  CHECK(weighted(1, {1, 3}) == Values{0, 1});
  CHECK(weighted(0, {1, 3}) == Values{0, 0});
  CHECK(weighted(9, {0, 1, 0}) == Values{0, 9, 0});
  CHECK(weighted(3, {1, 0, 1}) == Values{2, 0, 1});  // no row for weight 0, also where one is left
}

TEST_CASE("weighted slices add up for weights of any size", "[input][host]") {
  constexpr double kMost = std::numeric_limits<double>::max(),
                   kLeast = std::numeric_limits<double>::denorm_min();
  const std::vector<std::vector<double>> all{{kMost, kMost},
                                             {kLeast, kLeast, kLeast},
                                             {kMost, kLeast},
                                             {1. / 3, 1. / 3, 1. / 3},
                                             {1e-9, 1, 1e9, 0.1}};
  for (const std::vector<double>& weights : all)
    for (const std::int64_t num_rows :
         {std::int64_t{1}, std::int64_t{255}, std::int64_t{1} << 31, (std::int64_t{1} << 60) - 1}) {
      const Values dealt = weighted(num_rows, weights);
      CHECK(std::accumulate(dealt.begin(), dealt.end(), std::int64_t{0}) == num_rows);
      CHECK(*std::min_element(dealt.begin(), dealt.end()) >= 0);
    }
  CHECK(weighted(6, {kMost, kMost}) == Values{3, 3});
  CHECK(weighted(6, {kLeast, kLeast, kLeast}) == Values{2, 2, 2});
}

TEST_CASE("weights are checked", "[input][host]") {
  const auto check = [](BatchSplit split, std::vector<double> weights) {
    SplitRule{split, 2, std::move(weights)}.check("split");
  };
  CHECK_NOTHROW(check(BatchSplit::ceiling, {}));
  CHECK_NOTHROW(check(BatchSplit::weighted, {0, 2}));
  CHECK_THROWS_MATCHES(check(BatchSplit::balanced, {1, 1}), InvalidArgument,
                       says("split: there are 2 batch_weights", "batch_split is balanced"));
  CHECK_THROWS_MATCHES(check(BatchSplit::weighted, {}), InvalidArgument,
                       says("0 batch_weights for 2 replicas"));
  CHECK_THROWS_MATCHES(check(BatchSplit::weighted, {1, 1, 1}), InvalidArgument,
                       says("3 batch_weights for 2 replicas"));
  CHECK_THROWS_MATCHES(check(BatchSplit::weighted, {1, -1}), InvalidArgument, says("batch_weights[1] is -1"));
  CHECK_THROWS_MATCHES(check(BatchSplit::weighted, {std::nan(""), 1}), InvalidArgument,
                       says("batch_weights[0] is nan"));
  CHECK_THROWS_MATCHES(check(BatchSplit::weighted, {1, std::numeric_limits<double>::infinity()}),
                       InvalidArgument, says("batch_weights[1] is inf"));
  CHECK_THROWS_MATCHES(check(BatchSplit::weighted, {0, 0}), InvalidArgument,
                       says("all 2 batch_weights are 0"));
}

TEST_CASE("slices keep the rows' order", "[input][host]") {
  for (const BatchSplit rule : {BatchSplit::ceiling, BatchSplit::balanced, BatchSplit::weighted}) {
    BatchSplitIterator split(
        batch_list({vector_of(sequence(0, 6)), vector_of(sequence(6, 9))}),
        {rule, 4, rule == BatchSplit::weighted ? std::vector<double>{0, 1, 2, 1} : std::vector<double>{}});
    const std::vector<Values> parts = all_parts(split);
    CHECK(parts.size() == 8);
    Values rows;
    for (const Values& part : parts) rows.insert(rows.end(), part.begin(), part.end());
    CHECK(rows == sequence(0, 9));
  }
}

TEST_CASE("every component is sliced by its own rows, and each batch afresh", "[input][host]") {
  std::vector<std::optional<detail::FlatElement>> batches;
  batches.push_back(detail::FlatElement{vector_of(sequence(0, 4)), Tensor::from(sequence(0, 12), {6, 2})});
  batches.push_back(detail::FlatElement{vector_of(sequence(4, 7)), Tensor::from(sequence(12, 14), {1, 2})});
  BatchSplitIterator split(
      batches_of(std::make_unique<test::ListIterator<detail::FlatElement>>(std::move(batches))),
      {BatchSplit::ceiling, 3, {}});
  const std::array<Shape, 6> first{Shape(2), Shape(2), Shape(0), Shape(1), Shape(1), Shape(1)};
  const std::array<Shape, 6> second{Shape(2, 2), Shape(2, 2), Shape(2, 2),
                                    Shape(1, 2), Shape(0, 2), Shape(0, 2)};
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto slice = split.next();
    REQUIRE(slice);
    CHECK(on_host(*slice)[0].shape() == first[i]);
    CHECK(on_host(*slice)[1].shape() == second[i]);
  }
  CHECK_FALSE(split.next());
}

TEST_CASE("a scalar component cannot be sliced", "[input][host]") {
  BatchSplitIterator each(batch_list({Tensor::scalar(1.0f), vector_of({1})}), {BatchSplit::ceiling, 1, {}});
  CHECK_THROWS_MATCHES(each.next(), InvalidArgument,
                       says("scalar component, [] float32", "Batch the dataset first"));
  CHECK(all_parts(each) == std::vector<Values>{{1}});
  BalancedSplitIterator balanced(batch_list({Tensor::scalar(1.0f)}), {1});
  CHECK_THROWS_MATCHES(balanced.next(), InvalidArgument, says("[] float32", "not rows of equal number"));
}

TEST_CASE("balanced slices cut the rows of all batches as one sequence", "[input][host]") {
  const std::vector<Tensor> batches{vector_of(sequence(0, 8)), vector_of(sequence(8, 14))};
  BalancedSplitIterator split(batch_list(batches), {4, 4});
  CHECK(all_parts(split) ==
        std::vector<Values>{sequence(0, 4), sequence(4, 8), sequence(8, 12), sequence(12, 14)});

  const std::vector<Tensor> uneven{vector_of({0, 1, 2}), vector_of({}), vector_of({3}), vector_of({4, 5, 6})};
  BalancedSplitIterator across(batch_list(uneven), {2, 3});
  CHECK(all_parts(across) == std::vector<Values>{{0, 1}, {2, 3, 4}, {5, 6}});
}

TEST_CASE("a balanced slice of size 0 reads no row", "[input][host]") {
  BalancedSplitIterator split(batch_list({Tensor::from(sequence(0, 4), {2, 2})}), {0, 1});
  CHECK(on_host(*split.next())[0].shape() == Shape(0, 2));
  CHECK(on_host(*split.next())[0].to_vector<std::int64_t>() == Values{0, 1});
  CHECK(on_host(*split.next())[0].shape() == Shape(0, 2));
  CHECK(on_host(*split.next())[0].to_vector<std::int64_t>() == Values{2, 3});

  BalancedSplitIterator ended(batch_list({vector_of({5})}), {1, 0});
  CHECK(all_parts(ended) == std::vector<Values>{{5}, {}});
  CHECK_FALSE(ended.next());  // the end has been seen: neither size gives a slice any more
  CHECK_FALSE(ended.next());
  BalancedSplitIterator empty(batch_list({}), {0, 1});
  CHECK_FALSE(empty.next());
}

TEST_CASE("components with different numbers of rows cannot be balanced", "[input][host]") {
  std::vector<std::optional<detail::FlatElement>> batches;
  batches.push_back(detail::FlatElement{vector_of({0, 1, 2})});
  batches.push_back(detail::FlatElement{Tensor::zeros({4}), Tensor::zeros({3, 2})});
  batches.push_back(detail::FlatElement{vector_of({3, 4, 5})});
  BalancedSplitIterator split(
      batches_of(std::make_unique<test::ListIterator<detail::FlatElement>>(std::move(batches))), {2, 1});
  CHECK(on_host(*split.next())[0].size() == 2);
  CHECK(on_host(*split.next())[0].size() == 1);
  CHECK_THROWS_MATCHES(split.next(), InvalidArgument,
                       says("[4] float32", "[3, 2] float32", "AutoShardPolicy::data"));
  CHECK(all_parts(split) == std::vector<Values>{{3, 4}, {5}});
}

TEST_CASE("an exception within a step of balanced slices does not shift the next step's sizes",
          "[input][host]") {
  const auto split = [](bool leaves_out_steps) {
    return BalancedSplitIterator(batch_list({vector_of({0, 1}), Tensor::scalar(1.0f), vector_of({2, 3, 4})}),
                                 {2, 1}, leaves_out_steps);
  };
  for (const bool leaves_out_steps : {true, false}) {
    BalancedSplitIterator pass = split(leaves_out_steps);
    CHECK(on_host(*pass.next())[0].size() == 2);
    CHECK_THROWS_AS(pass.next(), InvalidArgument);
    // The step is left out, or goes on with its second slice.
    CHECK(all_parts(pass) ==
          (leaves_out_steps ? std::vector<Values>{{2, 3}, {4}} : std::vector<Values>{{2}, {3, 4}}));
  }
}

TEST_CASE("an exception within a balanced slice leaves out its rows with its step only", "[input][host]") {
  for (const bool leaves_out_steps : {true, false}) {
    BalancedSplitIterator pass(
        batch_list({vector_of({0}), Tensor::scalar(1.0f), vector_of({1, 2}), vector_of({3})}), {2, 2},
        leaves_out_steps);
    CHECK_THROWS_AS(pass.next(), InvalidArgument);
    CHECK(all_parts(pass) ==
          (leaves_out_steps ? std::vector<Values>{{1, 2}, {3}} : std::vector<Values>{{0, 1}, {2, 3}}));
  }
}

TEST_CASE("each worker has its slices of every batch, also after one that cannot be split", "[input][host]") {
  const SplitRule rule{BatchSplit::ceiling, 4, {}};
  const auto split = [&](std::size_t index) {
    return BatchSplitIterator(
        batch_list({vector_of({0, 1, 2, 3}), Tensor::scalar(1.0f), vector_of({4, 5, 6, 7, 8})}), rule, 2,
        index);
  };
  for (const auto& [index, first, second] :
       {std::tuple<std::size_t, Values, Values>{0, {0, 2}, {4, 5, 8}}, {1, {1, 3}, {6, 7}}}) {
    BatchSplitIterator pass = split(index);
    for (const std::int64_t row : first)
      CHECK(on_host(*pass.next())[0].to_vector<std::int64_t>() == Values{row});
    CHECK_THROWS_AS(pass.next(), InvalidArgument);
    Values rows;
    for (int slice = 0; slice < 2; ++slice)
      for (const std::int64_t row : on_host(*pass.next())[0].to_vector<std::int64_t>()) rows.push_back(row);
    CHECK(rows == second);
    CHECK_FALSE(pass.next());
  }
}

TEST_CASE("a whole batch is one part", "[input][host]") {
  detail::WholeIterator pass(batch_list({vector_of({1, 2}), vector_of({3})}));
  CHECK(all_parts(pass) == std::vector<Values>{{1, 2}, {3}});
}
